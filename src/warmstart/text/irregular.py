"""Words whose forms share no stem: `bought` is a form of `buy`.

A form that is as often another word is left out (`wound`, `leaves`), and so are forms of stopwords (`gave`).
"""

from __future__ import annotations

# A word, and its irregular forms.
_WORDS = """
    beat beaten; become became; begin began begun; bend bent; bind bound; bite bit bitten; bleed bled; blow blew blown;
    break broke broken; breed bred; bring brought; build built; burn burnt; buy bought; catch caught;
    choose chose chosen; cling clung; come came; creep crept; deal dealt; dig dug; draw drew drawn; dream dreamt;
    drink drank drunk; drive drove driven; eat ate eaten; fall fell fallen; feed fed; feel felt; fight fought;
    find found; flee fled; fly flew flown; forbid forbade forbidden; forget forgot forgotten; forgive forgave forgiven;
    freeze froze frozen; go went gone; grow grew grown; hang hung; hear heard; hide hid hidden; hold held; keep kept;
    kneel knelt; lay laid; lead led; lean leant; leap leapt; learn learnt; leave left; lend lent; light lit; lose lost;
    make made; mean meant; meet met; mistake mistook mistaken; overcome overcame; pay paid; prove proven;
    rewrite rewrote rewritten; ride rode ridden; ring rang rung; rise rose risen; run ran; see saw seen; seek sought;
    sell sold; send sent; sew sewn; shake shook shaken; shine shone; shoot shot; show shown; shrink shrank shrunk;
    sing sang sung; sink sank sunk; sit sat; sleep slept; slide slid; speak spoke spoken; spend spent; spill spilt;
    spin spun; spring sprang sprung; stand stood; steal stole stolen; stick stuck; strike struck; swear swore sworn;
    sweep swept; swim swam swum; swing swung; take took taken; teach taught; tear tore torn; think thought;
    throw threw thrown; undergo underwent undergone; understand understood; wake woke woken; wear wore worn;
    weave wove woven; withdraw withdrew withdrawn; write wrote written;
    child children; criterion criteria; foot feet; half halves; index indices; knife knives; man men; matrix matrices;
    mouse mice; person people; shelf shelves; tooth teeth; vertex vertices; wife wives; wolf wolves; woman women
"""
_ROWS = [row.split() for row in _WORDS.split(";")]

FORMS = {base: forms for base, *forms in _ROWS}
BASES = {form: base for base, forms in FORMS.items() for form in forms}
