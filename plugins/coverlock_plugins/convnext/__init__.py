"""ConvNeXt, shared by VINE's decoder, the preference model and the filter defence."""
