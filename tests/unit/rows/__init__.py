"""From bytes to items: the splitter, the parser, types, items."""
