"""Formulas as MathML while the site is built: every browser of today sets it, without a script or a network."""

import html
import re

from latex2mathml.converter import convert

# What pymdownx.arithmatex leaves of $...$ and $$...$$.
_INLINE = re.compile(r'<span class="arithmatex">\\\((.+?)\\\)</span>', re.DOTALL)
_DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.+?)\\\]\s*</div>', re.DOTALL)


def on_page_content(content, **_):
    """Replace every formula of a page."""
    content = _DISPLAY.sub(lambda found: f'<div class="formula">{_mathml(found[1], "block")}</div>', content)
    return _INLINE.sub(lambda found: _mathml(found[1], "inline"), content)


def _mathml(formula, display):
    return convert(html.unescape(formula).strip(), display=display)
