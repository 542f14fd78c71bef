"""The main text: which blocks of a page are what it is about.

Blocks are scored by size and link density; class and id words mark regions (navigation, comments, the article), and a marked
region is not believed when it holds much of the page's text; the main text is the run of blocks with the best sum.
(Pasternack and Roth, "Extracting article text from the web with maximum subsequence segmentation", WWW 2009; link density after
Kohlschuetter et al., "Boilerplate detection using shallow text features", WSDM 2010.)
"""

from __future__ import annotations

from lycosa.page.found import Block, Found
from lycosa.page.marks import AWAY, BODY, NEVER
from lycosa.page.tags import TAG

BELIEVED_SHARE = 0.3  # a region marked as boilerplate that holds more of the text is the text
BODY_SHARE = 0.3
DESCEND_SHARE = 0.75
SHORT = 40  # characters; a block below it costs unless its surroundings pay
_TR = TAG["tr"]


def main_text(found: Found) -> str:
    """The main text, lines joined by newline: a subsequence of the page's lines."""
    lines = found.lines
    return "\n".join([lines[index] for index in main_lines(found)])


def main_lines(found: Found) -> list[int]:
    """Indices of the lines of the visible text that are main text, in order."""
    blocks, parents, marks, tags = found.blocks, found.parents, found.marks, found.tags
    if not blocks:
        return []
    scale = _scale(found)
    count = len(parents)
    good = [0.0] * count
    for block in blocks:
        if not block.alt and block.link_size * 3 < block.size and block.size * scale >= SHORT:
            good[block.element] += block.size - block.link_size
    for index in range(count - 1, 0, -1):
        good[parents[index]] += good[index]
    total = good[0]
    away = [False] * count
    for index in range(1, count):
        mark = marks[index]
        away[index] = away[parents[index]] or (mark == AWAY and good[index] <= BELIEVED_SHARE * total) or (mark == NEVER and good[index] < total * 0.8)
    # Good text outside of what is put aside.
    kept = [0.0] * count
    for block in blocks:
        if not block.alt and block.link_size * 3 < block.size and block.size * scale >= SHORT and not away[block.element]:
            kept[block.element] += block.size - block.link_size
    for index in range(count - 1, 0, -1):
        kept[parents[index]] += kept[index]
    total = kept[0]
    body = 0
    for index in range(1, count):
        if marks[index] == BODY and not away[index] and kept[index] >= BODY_SHARE * total and kept[index] > kept[body] * (body > 0):
            body = index
    top = body
    children: dict[int, int] = {}
    for index in range(1, count):
        parent = parents[index]
        if parent not in children or kept[index] > kept[children[parent]]:
            children[parent] = index
    while top in children and kept[children[top]] > DESCEND_SHARE * kept[top]:
        top = children[top]
    if top:
        top = parents[top] if tags[top] != 0 and top not in children else top
    inside = [False] * count
    inside[top] = True
    for index in range(top + 1, count):
        inside[index] = inside[parents[index]]
    best = current = 0.0
    start = best_start = best_end = 0
    scores = [_score(block, away[block.element] , inside[block.element], scale, tags[block.element]) for block in blocks]
    for index, score in enumerate(scores):
        if current <= 0:
            current, start = 0.0, index
        current += score
        if current > best:
            best, best_start, best_end = current, start, index + 1
    lines: list[int] = []
    for index in range(best_start, best_end):
        block = blocks[index]
        if block.alt or away[block.element] or (scores[index] < 0 and block.link_size > 0.5 * block.size):
            continue
        lines.extend(range(block.first, block.last))
    return lines


def _scale(found: Found) -> float:
    """How many letters of Latin text a character of this page is worth."""
    characters = size = spaces = 0
    for line in found.lines:
        if not line.isascii():
            size += len(line.encode())
            characters += len(line)
            spaces += line.count(" ")
    if characters and size > 2 * characters and spaces < 0.1 * characters:
        return 2.0
    return 1.0


def _score(block: Block, away: bool, inside: bool, scale: float, tag: int) -> float:
    if block.alt:
        return 0.0
    size = block.size * scale
    if away:
        return -min(size, 100) * 0.5
    density = block.link_size / block.size
    if not inside:
        return -min(size, 100) * 1.0
    if density > 0.5:
        return -min(size, 100) * 1.0
    if size < SHORT:
        return size*.2 if tag == _TR and not density else -10.0
    return size * (1 - 2 * density)
