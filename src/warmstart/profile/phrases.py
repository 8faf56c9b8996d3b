"""What a person's sentence does: correct, approve, complain, ask, or tell the agent how to work from then on.

Read from surface words, English first and the commonest openings of seven other languages: weak evidence. Where a rule
could be wider or surer, it is surer. Only the opening of a message is looked at, so every expression is bounded.
"""

from __future__ import annotations

import re
from functools import lru_cache

from warmstart.profile.languages import words_in

OPENING = 400  # characters in which a message shows what it does
SENTENCES = 3  # a person corrects first and explains then
CLOSING = 40  # words: a longer message is a new request, whatever it opens with
INSTRUCTION = 200  # characters of a standing instruction
SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+|(?<=[。！？])")

_FILLERS = (
    r"(?:(?:hmm+|uh+|um+|oh|ah|ok(?:ay)?|well|wait|hey|hold on|sorry|actually|but|and|so|yeah|again|please|argh?|ugh)"
    r"\b[\s,.!…:-]*){0,3}"
)
# Corrections that could be the answer to a question as well.
_NO = re.compile(
    rf"{_FILLERS}(?:"
    r"(?:no|nope|nah)(?=\s*(?:[,.!:;–—-]|$)|\s+(?:that|this|it|you|i|don't|not|the|we|wait|no)\b)"
    r"|not (?:as|like|that|this|what|in|from|the)\b"
    r"|(?:nein|falsch)\b|non(?=\s*[,.!])|não\b|nao(?=\s*,)|不[是要行]|不，|いいえ|違[いう]|ちがう|아니)"
)
# `No, that's all, thanks`: the end of a conversation.
_POLITE = re.compile(
    r"(?:no|nope|nah)\b[\s,.!-]*"
    r"(?:that's (?:all|it|fine|ok|everything|good|correct|right)|that is all|that will be|that'll be|thanks?\b"
    r"|thank you|it's (?:fine|ok|good|all)|this is fine|i'm (?:good|all set|fine)|i think (?:that|we)|problem|worries"
    r"|need|rush|idea|not (?:yet|sure|really|necessary|needed|at (?:this|the) moment|right now)|nothing"
    r"|i (?:don't|do not) (?:have|need|think|know|remember)|i (?:just|would|'d|can't|cannot))"
)
_OPENS = re.compile(
    rf"{_FILLERS}(?:wrong\b|incorrect\b|(?:please )?stop(?=\s*(?:[,.!]|$)| (?:it|that|doing|for a|right)\b)"
    r"|(?:please |can you |could you )?(?:undo|revert) (?:that|this|it|your|those|these|the (?:last|previous))\b"
    r"|(?:please )?(?:don't|do not) do (?:that|this|it)\b"
    # `do not stash anything, read the files`: not that but this.
    r"|(?:don't|do not) (?:stash|commit|push|delete|remove|touch|change|edit|modify|reset|run|create|add|write|guess"
    r"|assume|install|rewrite|rename|skip|mock|make|invent|ask|use|do) [^,.;!?\n]{1,60}[,;] (?:just|only|instead|rather"
    r"|read|use|keep|leave|put|run|do|look|check|ask|stick|write|work|edit)\b"
    r"|not again|(?:why|seriously|really|failed|broken|failing) again\?"
    r"|das (?:ist|war) (?:falsch|nicht)|nicht so\b|so nicht\b"
    r"|ich (?:habe|hatte) (?:doch |dir ){0,2}(?:schon |bereits )?gesagt"
    r"|c'est (?:faux|pas (?:ça|ca|bon|ce que))|ce n'est pas\b|tu as oublié|je t'ai (?:déjà )?dit"
    r"|eso no (?:es|está)\b|está mal|te dije|ya te (?:dije|lo dije)|olvidaste"
    r"|isso (?:não|nao)\b|está errado|você esqueceu|eu (?:já )?(?:disse|falei)"
    r"|(?:questo |così )?non è (?:quello|giusto|corretto)|sbagliato|ti ho (?:già )?detto"
    r"|错了|不对|我说过|我(?:已经)?说了|撤销|还原|まだ(?:動|ダメ|だめ|失敗)|元に戻して|そうじゃな|じゃなくて)"
)
# Not after a word that makes it a condition, a reason or a report: `retry when it is not working`.
_PLAIN = "".join(
    rf"(?<!\b{word} )"
    for word in (
        *("if", "when", "whenever", "whether", "while", "unless", "until", "because", "since", "why", "where", "case"),
        *("though", "although", "once", "what", "says", "said", "think", "thinks", "assume"),
    )
)
# What may still be wrong after the agent's work. `Login still fails when …` is as likely a new task.
_SUBJECT = (
    r"(?:it|that|this|these|those|they|which|tests?|build|ci|pipeline|lint(?:er)?|page|app|server|error|output|script"
    r"|button|version|result|one|everything|i)(?:'s|'re|'m| is| are| am| has| was)?"
)
# `Why did you choose sqlite?` is a question.
_BLAMED = (
    r"(?:(?:did|would) you (?:just |even )?(?:not|delete|remove|drop|revert|ignore|break|skip|overwrite|undo|touch"
    r"|disable|stop|forget|commit|push|rewrite|rename|stash|reset|kill|wipe|comment out|make up|invent"
    r"|do (?:that|this))"
    r"|have you (?:not|deleted|removed|dropped|reverted|ignored|broken|skipped|overwritten|undone|disabled|stopped"
    r"|committed|pushed|rewritten|stashed|reset)|(?:are you|didn't you|don't you|haven't you|aren't you)"
    r"(?: (?:still|not|even|again|just|always|constantly|keep|doing (?:that|this)|ignoring|skipping|deleting|removing"
    r"|changing|guessing|making|trying|listen|use|run|read|test|do|follow)))\b"
)
# `The bug: login still fails`: a task is described, nobody is corrected.
_DESCRIBED = re.compile(
    r"(?:^|(?<=[.!?\n] ))\W{0,4}(?:(?:the|a|another|next|new|this) )?(?:bug|issue|problem|task|ticket|symptom)"
    r"\b[^:.!?\n]{0,30}:[^.!?\n]*"
)
# Corrections wherever they stand in the first sentences. Each begins with a letter, which the engine can skip by.
_WITHIN = re.compile(
    r"\b(?:not what i (?:asked|meant|wanted|said|want)\b|(?:that|this)(?:'s| is) not how\b(?![^.!\n]*\?)"
    r"|(?:that|this|it|part|answer|you)(?:'s| is|'re| are)(?:n't| not| still not) "
    r"(?:quite |fully |really |entirely |completely |at all )?(?:correct|right|true|accurate|it)\b(?!\?)"
    r"|(?:that|this|it|which)(?:'s| is| was) (?:just |totally |completely |still )?(?:wrong|incorrect)\b"
    r"|you(?:'re| are) (?:wrong|mistaken|misunderstanding)\b"
    r"|you (?:forgot|missed|misunderstood|ignored|broke|skipped|misread|made a mistake)\b"
    r"|you (?:were (?:supposed|meant) to|should(?:n't| not) have)\b"
    r"|i(?:'ve| have)? (?:already |just )?(?:told|asked|warned) you\b|(?:as|like) i (?:already )?(?:said|told you)\b"
    r"|i (?:already|just) (?:said|mentioned|explained|(?:gave|provided)(?! him| her| them)|asked (?:for|that))\b"
    r"|i never (?:asked|said|wanted|meant|told you)\b|i (?:didn't|did not) (?:ask (?:for|you)|say|tell you|want you)\b"
    rf"|{_PLAIN}you (?:did|have)(?:n't| not)\b(?![^.!\n]*\?)"
    rf"|it was in (?:your |the )?(?:memory|context|prompt)\b|why {_BLAMED}"
    rf"|{_PLAIN}(?:{_SUBJECT} |(?<=[.!?,:;] )|^)still (?:fail(?:s|ing|ed)?|broken|not (?:work|there|fix|right|see)\w*"
    r"|doesn't|does not|isn't|wrong|the same|seeing (?:the|this|that)|getting (?:the|this|that)|display(?:s|ing)"
    r"|happen(?:s|ing)|missing|reads|shows?)\b"
    rf"|{_PLAIN}(?:that|it|this)(?:'s| (?:still )?(?:does|did|is))(?:n't| (?:still )?not) work(?:ing)?\b(?!\?)"
    r"|there(?:'s| is| are) still (?:an? |the |some )?(?:same |other )?(?:issues?|errors?|problems?|failures?|bugs?)\b"
    r"(?![^.!?\n]{0,40}\b(?:backlog|tracker|board|milestone|queue|todo)\b)"
    r"|i still (?:get|see|have (?:the|this)|can't|don't see)\b|i(?:'m| am) (?:still )?not seeing\b"
    r"|i don't (?:quite |really )?like\b|i don't want you to\b"
    r"|(?:can you|could you|please) (?:revert|undo) (?:that|this|it|your)\b|this should(?:n't| not) (?:be|have)\b"
    r"|(?:geht|funktioniert) (?:immer )?(?:noch )?nicht\b|(?:immer noch|noch immer) (?:ein|der|die|das|kaputt|falsch)"
    r"|ne (?:marche|fonctionne) (?:toujours )?pas\b|(?:j'ai|il y a) toujours (?:ce|cette|le|la|l'|un|une|des) ?"
    r"|(?:sigue|todavía) (?:sin funcionar|fallando)|no funciona\b|não funciona|non funziona\b)"
    r"|没有?用|还是(?:不|失败|报错|一样)"
)
# Each of them holds one of these: to look for plain text first is ten times faster.
_CUES = (
    *("not ", "n't ", "wrong", "incorrect", "mistake", "misunderst", "misread", "forgot", "missed", "ignored", "broke"),
    *("skipped", "supposed to", "meant to", "told you", "asked you", "warned you", "i already", "i just", "it was in"),
    *("why ", "as i ", "like i ", "i never "),
    *(
        "still ",
        "revert",
        "undo",
        "nicht",
        "noch",
        " pas",
        "toujours",
        "funciona",
        "funziona",
        "sigue ",
        "todavía",
        "没",
        "还是",
    ),
)


@lru_cache(maxsize=512)
def corrects(text: str, *, answers: bool = False) -> bool:
    """Whether a message clearly corrects the agent. A `no` that answers a question corrects only if the rest does."""
    opening = text[:OPENING].lower()
    sentences = SENTENCE.split(opening, SENTENCES)[:SENTENCES]
    if not answers and _NO.match(opening) and not _POLITE.match(opening) and not sentences[0].endswith(("?", "？")):
        return True
    if _OPENS.match(opening):
        return True
    if not any(cue in opening for cue in _CUES):
        return False
    return bool(_WITHIN.search(_DESCRIBED.sub("", " ".join(sentences))))


_AGREES = re.compile(
    rf"{_FILLERS}(?:thanks?\b|thank you|thx\b|ty\b|great\b|perfect\b|awesome\b|nice\b|excellent\b|lgtm\b|amazing\b"
    r"|brilliant\b|cool\b|love it|good (?:job|work|catch|point|idea)|well done|looks? (?:good|great|right)|sounds good"
    r"|all good|(?:it |that |this )?works\b(?! (?:only|if|when|but))"
    r"|(?:it's|its|that's|this is) (?:perfect|great|good|right|correct|fine)"
    r"|yes(?=\s*(?:[,.!:-]|$)| (?:please|do|go|let)\b)|y(?:ep|up|eah)\b|sure\b|agreed\b|go ahead|do it\b|ship it"
    r"|merge it|danke\b|super\b|passt\b|genau\b|perfekt|ja(?=\s*[,.!]|$)|merci\b|parfait|oui\b|gracias|perfecto|sí\b"
    r"|genial\b|obrigad[oa]|perfeito|sim\b|grazie|perfetto|ottimo|谢谢|好的|很好|可以|完美|ありがとう|はい|完璧|고마|감사"
    r"|спасибо|отлично)"
)


def agrees(text: str) -> bool:
    """Whether a message opens with thanks, praise or a go-ahead."""
    return bool(_AGREES.match(text[:OPENING].lower()))


_CONTENT = re.compile(
    rf"{_FILLERS}(?:it (?:all )?works(?: now| great| well| perfectly| fine)?|that works(?: now| great| perfectly)"
    r"|works(?: now| great| perfectly| like a charm| for me| as expected)?"
    r"|(?:that |it |this )?(?:fixed|solved) (?:it|the)\b|thanks?\b|thank you|thx\b|great\b|perfect\b"
    r"|(?:its|it's|that's|this is) (?:perfect|great)|awesome\b|excellent\b"
    r"|lgtm\b|looks? (?:good|great)|well done|good job|ship it|merge it|perfekt|danke\b|parfait|merci\b|perfecto"
    r"|gracias|perfeito|obrigad[oa]|perfetto|grazie|完美|谢谢|很好|ありがとう|完璧|спасибо|отлично)"
)
# With one of these the praise is not the last word.
_RESERVED = re.compile(
    r"\?|？|\b(?:but|however|except|although|though|still|can you|could you|now(?<!works now)|next|then|also|instead"
    r"|let's|aber|mais|pero|mas|ma|anyway|nothing(?! (?:else|more))|fail\w*|errors?|crash\w*|another|broken?"
    r"|breaks|wrong|worse|bugs?|problems?|issues?|missing|not|never|unfortunately|sadly|whatever)\b|n't\b"
)
_COMPLAINS = re.compile(
    r"\b(?:still (?:fail(?:s|ing|ed)?|broken|not (?:work|fix|right)\w*|doesn't|does not|isn't|wrong|the same|happening"
    r"|missing)\b"
    r"|(?:that|it|this) (?:still |just )?(?:does|did|is)(?:n't| not) work(?:ing)?\b"
    r"|not what i (?:asked|meant|wanted)\b|(?:revert|undo) (?:that|this|it|everything|all|your)\b"
    r"|(?:that|this|it)(?:'s| is) (?:wrong|broken|worse|not (?:right|correct))\b|you broke\b|give up\b"
    r"|(?:geht|funktioniert) (?:immer )?(?:noch )?nicht\b|ne (?:marche|fonctionne) (?:toujours )?pas\b"
    r"|no funciona\b|não funciona|non funziona\b|не работает)"
    r"|^(?:wrong|broken)\b|没有?用|还是(?:不|失败|报错)|不对|错了|まだ動|動かない"
)


def approves(text: str) -> bool:
    """Whether a closing message clearly says that the work is good."""
    near = text[:OPENING].lower()
    return bool(_CONTENT.match(near)) and not _RESERVED.search(near) and words_in(text) <= CLOSING


def complains(text: str) -> bool:
    """Whether a closing message clearly says that the work is not good."""
    near = text[:OPENING].lower()
    return bool(_COMPLAINS.search(near)) and "?" not in near and words_in(text) <= CLOSING


_ASKS = re.compile(
    r"(?:(?:hey|hi|hello|ok(?:ay)?|also|and|so|hmm+|q)\b[\s,.!:]*){0,3}"
    r"(?:(?:can|could|would|will|should|shall|may|do|does|did|is|are|was|were|has|have) "
    r"(?:you|we|i|it|this|that|there|the)\b|(?:what|why|how|when|where|who|which)(?:'s)?\b|maybe\b|perhaps\b"
    r"|i (?:wonder|guess|think|was wondering)|i'm (?:wondering|not sure)|not sure|isn't\b"
    r"|kannst du|könntest du|können|vielleicht|peux[- ]tu|pouvez|est-ce|puedes|podrías|quizás|você pode|pode\b|puoi"
    r"|potresti|forse|能不能|会不会)"
)


def is_direct(text: str) -> bool:
    """Whether a message states what to do: neither its opening nor its end asks or hedges."""
    opening = SENTENCE.split(text[:OPENING].lower(), maxsplit=1)[0]
    return not (opening.endswith(("?", "？")) or text.endswith(("?", "？")) or _ASKS.match(opening))


# Enough of an instruction by themselves: `use uv`.
_TOOLS = (
    r"(?:uv|pip|pipx|poetry|conda|pixi|hatch|pnpm|npm|yarn|bun|deno|node|ruff|black|isort|mypy|pyright|pytest|unittest|tox"
    r"|nox|jest|vitest|playwright|biome|eslint|prettier|tailwind|typescript|javascript|python|rust|cargo|gradle|maven"
    r"|docker|podman|make|just|mise|git|gh|rg|ripgrep|fd|jq|tabs|spaces|british english|american english|english)"
)
_STANDING = re.compile(
    r"(?:(?:and|but|also|so|ok(?:ay)?|yes|no|please|remember|important|note|btw)\b[\s,:!-]*){0,3}(?:"
    r"(?:you (?:should|must|need to|have to) |we (?:should )?|i want you to |make sure (?:to |you |we )?)?"
    r"(?:always|never)\s+(?:[a-z]+ly )?"
    r"(?!been\b|was\b|were\b|had\b|is\b|are\b|mind\b|said\b|did\b|got\b|used to\b)"
    # `always fails`, `never worked`: what something does, not what to do.
    r"(?!(?!focus\b|alias\b)[a-z]*[^\Ws]s\b|(?!need\b|embed\b|feed\b|seed\b|proceed\b|succeed\b|exceed\b)[a-z]+ed\b"
    r"|(?!bring\b|ping\b)[a-z]+ing\b)[a-z]{2,}"
    r"|(?:don't|do not) ever\b|from now on\b|going forward\b|remember to\b"
    r"|in (?:the )?future,? (?:please|always|never|do|don't|use|make|run|ask|you)\b"
    r"|(?:every time|whenever|each time) (?:you|we)\b.*,"
    r"|in (?:this|our) (?:repo(?:sitory)?|project|codebase|team|code base),? "
    r"(?:we|use|always|never|don't|do not|please|all|you)\b"
    r"|(?:as )?(?:our|the|my) (?:convention|rule|policy) is\b|we (?:only|exclusively) use\b"
    r"|we (?:use|prefer|avoid|don't use|do not use) (?!.*\b(?:fail|crash|break|broke|error)\w*)"
    r"[^\s,;:]+(?: [^\s,;:]+){0,2}"
    r"(?: (?:for|in|as|here|everywhere|not|instead of|rather than|over)\b|, (?:not|never|so|always|please)\b|[.!]|$)"
    rf"|(?:please )?(?:always )?use {_TOOLS}(?: (?:here|please|everywhere))?\W*$"
    r"|(?:please )?(?:don't|do not) use (?!(?:it|that|this|the|them|those|these|any|my|your|our|both|an?)\b)[a-z-]+"
    r"(?: (?:in|for|as|anywhere|here|at all|please)\b[^,;:]{0,60})?[.!]*$"
    r"|(?:please )?prefer \S+|i (?:always|generally|usually) prefer \S+"
    r"|(?:please )?use \S+(?: \S+){0,2},? (?:instead of|not|rather than|over) \S+"
    r"|(?:immer|niemals|ab jetzt|ab sofort|in zukunft|toujours|jamais|désormais|à partir de maintenant)\b"
    r"|(?:siempre|nunca|de ahora en adelante|a partir de ahora|sempre|a partir de agora|d'ora in poi)\b"
    r"|总是|永远不要|始终|以后|从现在开始|今後|これからは|常に|必ず|всегда|никогда)"
)
_EVERYWHERE = re.compile(
    r"\b(?:we (?:should|must|need to) (?:be |always |only )?us(?:e|ing)|make sure (?:we're|we are|you're|you|we|to)?)\b"
    r".{0,120}\b(?:everywhere|wherever|throughout|always|every time|at all times|in all)\b"
)
# Code, a log, a place in the text at hand: of the moment.
_OF_THE_MOMENT = re.compile(
    r"\?\s*$|[{}=;]|\\n|::|https?://|\bnever mind\b|^\s*(?:error|warning|fail|info|debug)\b|\d:\d|\x1b", re.IGNORECASE
)
_HINTS = (
    *("always", "never", "ever ", "from now on", "going forward", "future", "remember to", "every time", "each time"),
    *("whenever", "in this ", "in our ", "convention", "rule is", "policy", "we ", "prefer", "use ", "make sure"),
    *("immer", "niemals", "ab jetzt", "ab sofort", "zukunft", "toujours", "jamais", "désormais", "à partir de"),
    *("siempre", "nunca", "de ahora en", "a partir de", "sempre", "d'ora in poi", "总是", "永远", "始终", "以后"),
    *("从现在", "今後", "これからは", "常に", "必ず", "всегда", "никогда"),
)
_BULLET = re.compile(r"[\s>]*(?:[-*•+]|\d{1,2}[.)])?\s*(?:\*\*)?")


def standing(text: str) -> list[str]:
    """The sentences that tell the agent how to work from then on, not what to do at once; word for word."""
    lower = text.lower()
    if not any(hint in lower for hint in _HINTS):
        return []
    bare = (
        sentence[_end_of_bullet(sentence) :].strip().strip('"').removesuffix("**") for sentence in SENTENCE.split(text)
    )
    return [sentence for sentence in bare if _is_standing(sentence)]


def _end_of_bullet(sentence: str) -> int:
    found = _BULLET.match(sentence)
    return found.end() if found else 0


def _is_standing(sentence: str) -> bool:
    lower = sentence.lower()
    if not 8 <= len(sentence) <= INSTRUCTION:
        # A sentence in a script without spaces says as much in fewer characters, and so does `use uv`.
        short = 4 <= len(sentence) < 8 and (not sentence.isascii() or lower.startswith("use "))
        return short and bool(_STANDING.match(lower))
    if not (_STANDING.match(lower) or _EVERYWHERE.search(lower)):
        return False
    return not _OF_THE_MOMENT.search(sentence)
