"""HTML: one walk over the tree collects text, links, metadata and regions.

`tree.parse_html` is the only caller of the HTML parser and bounds nesting; `walk` visits the
tree once; `main_text` selects the regions that contain the article.
"""
