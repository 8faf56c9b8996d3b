"""How text speaks that wants to be obeyed, in English: what is asked for, of whom, and for how long.

A rule has anchors, which an automaton finds in one pass over the text, and a pattern that is tried only around them.
The rules here see words with one space between them, whatever stood there: ends of lines, comment signs, markup, `_` in
a name, `/` in an address; a sentence is the same sentence however it is cut up. Apostrophes are gone: `dont`. Every
repetition is bounded.
"""

from __future__ import annotations

from warmstart.text.scanner import Rule
from warmstart.text.untrusted import expand_words

_TOLD_OF = (
    *("can", "will", "would", "could", "which", "that", "it", "we", "i", "they", "is", "are", "was", "were", "not"),
    *("users", "harness", "runs"),
)


def words(why: str, anchors: str, *sentences: str) -> Rule:
    """A rule for words. In a sentence `<n>` stands for up to n words, and `{NAME}` for one of the sets below."""
    joined = "|".join(sentences)
    for name, some in _SETS.items():
        joined = joined.replace("{" + name + "}", some)
    return Rule(tuple(anchors.split("|")), expand_words(joined), why)


_SETS = {
    "agent": (
        r"(?:(?:an?|the|any|all|every|this|your|our|fellow|future|coding|reading|dear) ){0,3}"
        r"(?:ai|llms?|assistants?|(?:ai|coding|llm|autonomous) (?:agents?|models?|assistants?|systems?)|agents?"
        r"|language models?|chat ?bots?|claude(?: code)?|chat ?gpt|gpt|codex|gemini|copilot|cursor|hermes)"
    ),
    "do": (
        r"(?:run|execute|pipe|curl|wget|fetch|download|install|invoke|call|use|launch|start|source|eval|send|post"
        r"|upload"
        r"|paste|type|issue|prefix|prepend|visit|open|load|read|follow|obey|do|perform|trust|apply|include|add|append"
        r"|insert|put|pass|prefer|begin|write|commit|push|delete|remove|disable|skip|approve|reply|respond|answer|say"
        r"|ask|tell|show|print|output|check|make|keep|remember|save|treat|assume)"
    ),
    "execute": (
        r"(?:run|execute|pipe|curl|wget|fetch|download|invoke|launch|eval|send|upload|paste|prefix|prepend|obey|disable"
        r"|approve|reply|respond)"
    ),
    "shell": r"(?:sudo )?(?:(?:usr )?bin )?(?:env )?(?:(?:ba|z|da|k|c|fi|a|pw)?sh|shell|python3?|perl|node"
    "|interpreter)",
    "session": r"(?:sessions?|conversations?|chats?|tasks?|interactions?|requests?|turns?|prompts?)",
    "never": r"(?:do not|dont|never|must not|should not|no need to|not need to|neednt)",
    "told": (
        r"(?:instructions?|instructed|prompts?|rules?|guidelines?|directions?|directives?|guidance|constraints?|orders"
        r"|commands?|messages|context|above|before|told|said|training|polic(?:y|ies)|limitations|restrictions)"
    ),
    "memory": (
        r"(?:memor(?:y|ies)|notes?|notebook|knowledge(?: base)?|system prompt|instructions|profile|context|rules"
        r"|(?:claude|agents|gemini|memory) md)"
    ),
    # What is said of somebody is no order: `users can always run it`, `which always prints`.
    "told_of": "".join(f"(?<!{word} )" for word in _TOLD_OF),
    "soon": r"(?:first|also|please|just|immediately|then|silently|quickly|simply|directly|now|and|remember to"
    "|start by)",
    "keep": r"(?:add|save|store|write|commit|put|append|record|keep|copy|note|persist|insert|include|log|place)",
}

WORDS = (
    words(
        "speaks for all time to come",
        "from now|from this|from here|from today|henceforth|hereafter|future|going forward|every session|each session"
        "|any session|all sessions|new session|next session|following session|every conv|each conv|all conv|new conv"
        "|next conv"
        "|later session|further notice|every time|each time|next time|any time|whenever|as a rule|general rule|rule run"
        "|standing|permanent|rest of|remainder|subsequent|upcoming|every chat|each chat|all chats|before every"
        "|before each"
        "|before any|before all|every new|each new|all new|any new|of every|of each|of any|of all|in any"
        "|in every|in each"
        "|in your|in all|for any|for every|for each|for all",
        r"from (?:now|here|this (?:point|moment|day|time)|today) (?:on|onwards?|forwards?)|henceforth|hereafter",
        r"(?:all|every|each|any|in|for|your|these|during|across|of) (?:the |your )?(?:future|subsequent|later|upcoming"
        r"|next) <1> (?:sessions?|conversations?|chats?|interactions?|tasks|work|runs|commands|commits|installs)",
        r"(?:start|beginning|begin|top|end) of (?:every|each|any|all) (?:new )?(?:sessions?|conversations?|chats?"
        r"|tasks?)",
        r"(?:in|for|during|at|on|before) (?:every|each|any|all) (?:new )?(?:sessions?|conversations?"
        r"|chats?) (?:start )?"
        r"(?:you|always|first|please|{execute})",
        r"{execute} <8> (?:in|for|during|at|on|before) (?:every|each|any|all) (?:new )?(?:sessions?|conversations?"
        r"|chats?)",
        r"(?:define|set|export|alias|use|apply|enable|do) <8> (?:in|for|at|on) (?:every|each|any"
        r"|all) (?:new )?(?:sessions?"
        r"|conversations?|chats?)",
        r"(?:every|each|any|next) time (?:you|u)|whenever (?:you|u|asked|an? (?:user|agent|assistant))",
        r"before (?:every|each) <2> {execute}|(?:run|execute|curl|wget|pipe|fetch) <6> before (?:every|each)",
        r"(?:as a )?(?:general )?rule <2> {execute}|as a (?:general )?rule <1> {do}",
        r"(?:standing|permanent) (?:orders?|instructions?|rules?)|until further notice",
        r"(?:first|last|only) (?:command|step|action|call|thing) (?:in|of|for) (?:any|every|each|all"
        r"|your) <2> (?:is|has to"
        r"|must|should|shall|will)",
        r"{do} <4> before (?:each|every|any) (?:commands?|calls?|steps?|actions?|edits?|commits?|sessions?)",
        r"going forward (?:you|always|please|{do})|for the (?:rest|remainder) of (?:this|the|your) {session}",
    ),
    words(
        "wants to be remembered",
        "remember|memor|in mind|forget|take note|your notes|your knowledge|claude md|agents md|gemini md|memory md"
        "|system prompt|your instructions|your profile|a note|mental note|your context|your rules|note to self",
        r"(?:please|also|and|always|must|should|to|do|you) remember <1> (?:that|this|these|to|always|never|you"
        r"|{execute})",
        r"remember (?:to|that|this|these|always|never|you|for (?:next|later|future|all)|whenever|and {do})",
        r"remember (?:it |how |the )?<1> {execute}",
        r"(?:keep|bear) in mind (?:that )?(?:you|always|never|{execute})|{never} (?:ever )?forget (?:to|that|this)",
        r"(?:memori[sz]e|commit to memory) (?:this|that|the following|these)|note to self",
        r"{keep} <6> (?:your|long term|longterm|permanent|persistent|agent|agents|assistants?|models) <2> {memory}",
        r"{keep} (?:this|it|that|these|the following) <4> (?:memory|memories|(?:claude|agents) md|system prompt)",
        r"(?:make|take) (?:a )?(?:mental )?note (?:that|to|of this)",
    ),
    words(
        "gives an order that always holds",
        "always|never|every time|each time|invariably|at all times|without exception|without fail|unconditionally",
        r"{told_of}(?:always|invariably|unconditionally) (?:{soon} ){0,2}{do}",
        r"never (?:ever )?(?:run|execute|use|call|ask|trust|skip|do|tell)",
        r"(?:run|execute|pipe|curl|wget|fetch|download|prefix|prepend) <8> (?:always|every time|each time|at all times"
        r"|without (?:exception|fail))",
    ),
    words(
        "gives the reader an order",
        "you must|you should|you need|you have to|you are|you will|you shall|you ought|make sure|be sure|mandatory"
        "|required|important|essential|crucial|imperative|necessary|vital|critical|you absolutely|please|kindly"
        "|your new"
        "|your next|your first|your only|your real|your actual|your true|before|prior to|you do have|one must|u must"
        "|must first|must now|commands must|command must|commands should|every command|follow |should now|first step"
        "|step 1|the only way|proper way|correct way|right way",
        r"(?:you|u|one) (?:must|should|shall|will|need to|have to|ought to|absolutely must|do have to|are (?:now )?"
        r"(?:required|obliged|instructed|ordered|expected|supposed|to)(?: to)?) (?:(?:now|always|never|first"
        r"|immediately"
        r"|also|instead|only|not|then|therefore|silently|secretly|please) ){0,2}(?:{execute}|follow|comply|trust|visit"
        r"|reveal)",
        r"(?:you|u) (?:must|should|shall) (?:now|always|never|immediately)",
        r"(?:make|be) (?:absolutely )?sure (?:that )?(?:you )?(?:to )?(?:always |first )?{execute}",
        r"(?:its|it is) <1> (?:mandatory|required|essential|crucial|important|imperative|necessary|vital|critical)"
        r" (?:to|that you) <1> {execute}",
        r"(?:all|every|any) (?:shell )?commands? (?:must|should|has to|have to|needs? to) (?:be|start|begin|include"
        r"|use)",
        r"follow <3> (?:instructions|steps|rules|guidance) <2> (?:at|in|from|on) <2> (?:https?|url|link|page|site)",
        r"your (?:new|first|next|only|real|actual|true) (?:job|task|goal|instructions?|action|command|objective"
        r"|mission)"
        r" (?:is|are|must|should|will)",
        r"(?:before|prior to|when|after) (?:using|calling|invoking) (?:this|the|any|these) (?:tools?"
        r"|functions?) <3> (?:{do}|set)",
        r"(?:before|prior to) (?:doing|you|answering|starting|anything|beginning|continuing|proceeding"
        r"|all) <4> {execute}",
        r"(?:please|kindly|must|should|first|now) <1> (?:run|execute|pipe|curl|wget|send|upload|obey|fetch) <4> (?:curl"
        r"|wget|sh|bash|scripts?|always|every|immediately)",
        r"(?:the )?(?:only|proper|correct|right|official|approved) way <6> (?:pipe|curl|wget)",
    ),
    words(
        "speaks to an agent",
        "note to|notes to|note for|notes for|message to|message for|messages to|messages for|instruction to"
        "|instruction for"
        "|instructions to|instructions for|attention|attn|reminder to|reminder for|notice to|notice for|hint to"
        "|hint for"
        "|hints for|important for|memo to|memo for|directive to|directive for|directives to|directives for|order to"
        "|orders to"
        "|orders for|guidance for|advice for|dear |hey |hi |hello |listen |you are|u are|youre now| must | shall "
        "| please "
        "|has to | have to |need to |needs to |required to|agents should|models should|assistants should|llms should"
        "|ais should"
        "|agent should|assistant should|model should|ai should|agents |assistants |llms |every agent|each agent"
        "|any agent"
        "|every assistant|each assistant|every llm|by the a|by an a|by any a|by every a|by all a|by the llm"
        "|by the model"
        "|agent instr|assistant instr|ai instr|llm instr|claude instr|agent direct|agent order",
        r"(?:notes?|messages?|instructions?|attention|attn|reminder|notice|hints?|important|memo|directives?"
        r"|orders?|guidance|advice) (?:to|for) {agent}",
        r"(?:dear|hey|hi|hello|attention|attn|listen|listen up) {agent}",
        r"(?:if|when|since|because|as) (?:you|u) (?:are|re) {agent}|youre? (?:are )?now {agent}",
        r"(?:ai|llms?|(?:ai|coding|llm) (?:agents?|assistants?|models?)|language models?|assistants?|claude|chatgpt"
        r"|copilot|codex) <1> (?:must|shall|please|has to|have to|needs? to|(?:is|are) required to) <1> {do}",
        r"(?:agents|models|assistants|ais|llms) <4> (?:must|shall|should|have to|need to|are required to) <2> (?:{do}"
        r"|set|allow|define|export|enable|configure|create|change|edit|replace|register|grant)",
        r"(?:agents|assistants|llms|(?:ai|coding|llm) (?:agent|assistant|model)) <1> (?:please"
        r"|kindly) <1> (?:{do}|set|allow"
        r"|define|export|enable|configure|create)",
        r"(?:every|each|any|all) (?:ai |coding )?(?:agents?|assistants?|llms?) (?:must|begins?|starts?|should"
        r"|has to|have to)",
        r"(?:needs?|has|have|is|are|must|should|ought) (?:to )?(?:be )?(?:run|executed|invoked|called|done|set"
        r"|installed"
        r"|started) (?:first )?by (?:the |an? |any |every |all )?(?:ai |coding )?(?:agents?|assistants?|llms?|models?)",
        r"(?:agents?|assistants?|ai|llms?|claude|copilot|codex|gemini) (?:instructions?|directives?"
        r"|orders?) (?:always|never|{execute}"
        r"|export|set|install|use)",
        r"agents (?:always|never|every|each|all|before|first) <4> (?:{do}|has to|have to|must|set)",
        r"(?:the|an?|any|this) (?:assistant|agent|model|ai) (?:also |always |then |now )?(?:must|shall|has to"
        r"|needs to|is required to|should) <1>"
        r" {execute}",
    ),
    words(
        "gives the reader a part to play",
        "you are|youre|act as|behave as|pretend|mode|jailbreak|instructions|instruction|system prompt|admin override"
        "|administrator override|system override",
        r"(?:you are|youre) now (?:an?|the|in|acting|going|free|dan|my|our|operating|required|allowed|authori[sz]ed)",
        r"(?:you are|youre) (?:an?|the) <2> (?:ai|assistant|llm|language model|chatbot|agent)",
        r"(?:act|behave) as (?:if you|an?|the|my) <2> (?:ai|assistant|llm|model|agent|admin|root|administrator|shell)",
        r"pretend (?:to be|that you|you)|(?:developer|dan|god|jailbreak|admin) mode (?:on|enabled|activated)",
        r"(?:new|updated|real|secret|hidden|actual|revised) (?:system )?instructions? (?:are|is|for you|follow|from"
        r"|below)",
        r"(?:reveal|print|show|leak|repeat|output|replace|change|update|edit|extend|amend) <3> (?:your"
        r"|the) system prompt",
        r"(?:admin(?:istrator)?|system) override",
    ),
    words(
        "lets the reader act without the user",
        "without|permission|need to ask|the user|not ask|not tell|not mention|not inform|not notify|never ask"
        "|never tell"
        "|never mention|preapproved|pre approved|already approved|approve|dont ask|dont tell|dont mention|reveal"
        "|secretly"
        "|silently|quietly|the human",
        r"without (?:asking|confirm(?:ing|ation)|approval|permission|telling|informing|notifying) <2> (?:user|human"
        r"|them"
        r"|anyone|approval|confirmation|permission|consent|run|execute|curl)|without (?:the )?users? (?:knowing|consent"
        r"|approval|knowledge|permission|confirmation|noticing)",
        r"{never} (?:ask|wait) <3> (?:permission|confirmation|approval|consent|user)",
        r"{never} (?:tell|inform|mention|notify|alert|warn|reveal|ask) <4> (?:user|human|anyone|operator)",
        r"the (?:user|human) (?:has |already |just |fully |explicitly ){0,2}(?:pre ?approved|approved|authori[sz]ed"
        r"|consented|agreed|wants you|asked you|asks you"
        r"|expects you|granted|permits|allowed you|would like you)",
        r"you have (?:full )?(?:permission|authority|authori[sz]ation|consent) (?:to|for)",
        r"(?:pre ?approved|already approved) <3> (?:commands?|actions?|calls?|run|execut\w*)"
        r"|dangerously skip permissions",
        r"(?:secretly|silently|quietly) {execute}",
    ),
    words(
        "wants something to start by itself",
        "bashrc|zshrc|bash profile|zprofile|zshenv|hookspath|authorized keys|crontab",
        r"(?:add|append|put|write|insert|source|place|set|install|configure|copy|register) <9> (?:bashrc|zshrc"
        r"|bash profile"
        r"|zprofile|zshenv|hookspath|authorized keys|crontab)",
    ),
)
