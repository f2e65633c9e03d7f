"""The kinds of pictures that are mostly text, tables and lines: paper, screens and charts."""

from __future__ import annotations

from coverlock_sdk.training.kinds import cards, charts, documents, layouts, screens
from coverlock_sdk.training.kinds.kind import Kind

PAGES: tuple[Kind, ...] = (
    Kind(
        "text of one layout",
        (documents.columns_page, documents.letter),
        (documents.plain_page,),
        one_template=True,
    ),
    Kind(
        "text of many layouts",
        (documents.columns_page, documents.letter, documents.table_page),
        (documents.report_page,),
    ),
    Kind(
        "forms", (documents.form, layouts.made_up_form), (documents.boxed_form,), one_template=True
    ),
    Kind("ID cards", (cards.id_card, layouts.made_up_card), (cards.licence,), one_template=True),
    Kind("receipts", (cards.receipt,), (cards.till_slip,), one_template=True),
    Kind("slides", (documents.slide, layouts.made_up_page), (documents.keynote,)),
    Kind(
        "dashboards of one app",
        (screens.dashboard, layouts.made_up_board),
        (screens.control_room,),
        True,
    ),
    Kind("chats", (screens.chat,), (screens.group_chat,)),
    Kind(
        "screenshots",
        (screens.web_page, screens.editor, screens.settings_list, screens.spreadsheet),
        (screens.news_app, screens.file_manager),
    ),
    Kind("bar charts", (charts.bar_chart, charts.pie_chart), (charts.plotted_bars,)),
    Kind("line charts", (charts.line_chart, charts.scatter_chart), (charts.plotted_lines,)),
    Kind("maps", (charts.street_map,), (charts.contour_map,)),
)
