"""``coverlock web``"""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.cli.options import Trusted, open_lock, trust_option


@click.command()
@click.argument("folder", metavar="BUNDLE", type=click.Path(path_type=Path))
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, help="Folder for index.html."
)
@click.option(
    "--watermark",
    show_default="the bundle's own",
    help="Watermark that marks the page's sample pictures, as NAME or NAME:OPTION=VALUE,...",
)
@click.option("--open", "open_page", is_flag=True, help="Open the page in a browser.")
@trust_option
def web(folder: Path, out: Path, watermark: str | None, open_page: bool, trust: Trusted) -> None:
    """Turn BUNDLE into a single HTML page that verifies pictures offline.

    Works only for bundles exported without a key, because a page cannot keep one secret. Run
    'coverlock fetch onnxruntime-web' first.
    """
    from coverlock_web.site import write_site

    bundle = Bundle.open(folder, trust)
    manifest = bundle.manifest
    lock = open_lock(
        watermark or manifest.watermark,
        manifest.hash,
        key_file=None,
        fpr=manifest.fpr,
    )
    page = write_site(bundle, lock, out)
    click.echo(f"page: {page} ({page.stat().st_size / 1e6:.1f} MB)")
    if open_page:
        click.launch(str(page))
