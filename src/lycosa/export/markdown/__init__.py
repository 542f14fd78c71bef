"""Pages as Markdown files with YAML front matter, and the `llms.txt` files of a site.

Markdown is made from the archived response, as `lycosa.page.html.markdown` describes; pages that
are not HTML are made from their text and headings. Nothing is fetched.
"""
