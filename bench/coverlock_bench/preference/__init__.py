"""The preference model of WMForger (Soucek et al. 2025): which of two pictures looks unmarked?"""
