"""How text speaks that wants to be obeyed, in other languages than English: ignore, remember, always run, from now on.

Languages in Latin letters are matched in the words as they look, without accents; the others in the text as it stands,
because half of the Cyrillic letters look like Latin ones.
"""

from __future__ import annotations

from warmstart.templates.wording import words
from warmstart.text.scanner import Rule

_WHY = "gives an order in {}"

WORDS = (
    words(
        _WHY.format("German"),
        "ignorier|missacht|vergiss|vergess|merk|denk|ab jetzt|ab sofort|von nun an|immer|kunftig|zukunft|zukuenftig"
        "|stets"
        "|kuenftig|assistent|sitzung|jedes mal|fur die ki|fuer die ki|an die ki|vor jede",
        r"vergiss nicht|vergessen sie nicht|vor jede[rmns]? <3> (?:muss|soll|ist|sind"
        r"|wird) <4> (?:aus(?:zu)?gef(?:u|ue)hrt"
        r"|auszuf(?:u|ue)hren|gestartet|aufgerufen|zu starten|aufzurufen)",
        r"(?:ignorier|missacht|vergiss|vergess|verwirf)(?:e|en|t|est)? <3> (?:(?:vor(?:her|ig|an)|bisher|obig|fruher"
        r"|frueher"
        r"|vorhergehend|anweisung|instruktion|regel|befehl)[^ ]{0,10}|alles?)",
        r"merken? (?:dir|sie sich|euch)|merk dir|denke?n? (?:sie )?(?:immer )?daran",
        r"(?:ab (?:jetzt|sofort|nun)|von (?:nun|jetzt) an|kunftig|kuenftig|in zukunft) <3> (?:immer|stets|fuhr|fuehr"
        r"|nutz"
        r"|verwend|start|ruf|ausfuhr|ausfuehr|curl|alle|jede|soll|muss|musst)[^ ]{0,8}",
        r"(?:f[u]e?hr|start|nutz|verwend|ruf|benutz|lad)(?:e|en)? <2> (?:immer|stets|jedes mal|jedesmal)",
        r"(?:immer|stets|jedes mal) <8> (?:ausf(?:u|ue)hren|aufrufen|starten|verwenden|benutzen|nutzen|laufen lassen)",
        r"in (?:allen|jeder) (?:neuen )?(?:k(?:u|ue)nftigen|zuk(?:u|ue)nftigen|sitzung|sitzungen)",
        r"(?:an|fur|fuer) (?:den|die|das|alle) (?:ki|assistent|agent|sprachmodell|modell)(?:en)?",
    ),
    words(
        _WHY.format("French"),
        "ignore|oubli|souv|rappel|a partir de|desormais|dorenavant|toujours|lassistant|lagent|lia|les sessions"
        "|les futures|les proch",
        r"(?:ignore[zr]?|oublie[zr]?) <2> (?:les?|la|tout|toutes|vos|tes) <2> (?:instructions?|consignes?|regles?"
        r"|directives?"
        r"|precedent[^ ]{0,3})",
        r"souviens toi|souvenez vous|rappelle toi|rappelez vous|noublie[zr]? (?:pas|jamais)",
        r"a partir de maintenant|desormais|dorenavant|(?:execute|lance|utilise|appelle|telecharge)[zrs]? <2> toujours",
        r"toujours <1> (?:execute|lance|utilise|appele|telecharge)[zr]?",
        r"dans (?:toutes )?les (?:futures|prochaines)|dans toutes les sessions|(?:note|message) (?:a"
        r"|pour) l(?:assistant|agent|ia)",
    ),
    words(
        _WHY.format("Spanish"),
        "ignor|olvid|recuerd|acuerdate|a partir de|de ahora en|siempre|sesion|asistente",
        r"(?:ignor[ae][rd]?|olvid[ae][rd]?) <2> (?:las?|los|todo|todas|tus|sus) <2> (?:instruccion|regla|orden"
        r"|indicacion"
        r"|anterior)[^ ]{0,3}",
        r"(?:recuerd[ae]n?|acuerdate|no olvides) (?:de )?(?:que|siempre|esto|(?:ejecut|us|corr|instal"
        r"|descarg)[^ ]{1,5})",
        r"a partir de (?:ahora|este momento)|de ahora en adelante",
        r"siempre <1> (?:ejecut|us|corr|llam|descarg|instal)[ae][^ ]{0,4}|(?:ejecut[ae]|us[ae]|corr[ae])n? <1> siempre",
        r"en (?:todas las|futuras|las proximas) (?:futuras )?sesiones|nota para el (?:asistente|agente|modelo)",
    ),
    words(
        _WHY.format("another language of Europe"),
        "ignor|esque|lembre|sempre|de agora|ricorda|dimentic|ora in poi|negeer|vergeet|onthoud|vanaf nu|altijd"
        "|zapamietaj|zawsze|zignoruj|od teraz|kom ihag|alltid|husk",
        r"(?:ignor[ae]|esquec[ae]|dimentic[^ ]{1,4}) <2> (?:as|todas|le|tutte) <2> (?:instruc|istruzion|regra"
        r"|regol)[^ ]{1,5}",
        r"lembre se|a partir de agora|sempre <1> (?:execut|us|rod|chame|esegui)[^ ]{0,4}|ricorda(?:ti|te)? (?:di|che"
        r"|sempre)",
        r"dora in poi|(?:esegui|usa|lancia) sempre|(?:negeer|vergeet) <2> (?:eerdere|vorige|alle)",
        r"zapamietaj|od teraz|zignoruj <3> (?:poprzednie|wszystkie)|zawsze <1> (?:uruchamiaj|wykonuj|uzywaj)",
        r"kom ihag|(?:kor|kjor|anvand|bruk) alltid|husk (?:alltid|at)",
        r"onthoud (?:dat|om|dit|altijd)|vanaf nu|(?:voer|gebruik|start) <2> altijd|altijd <6> uitvoeren",
    ),
)


def _native(name: str, anchors: str, *patterns: str) -> Rule:
    """A rule for a text in its own letters; `~` is whatever parts two words."""
    joined = "|".join(patterns).replace("~", r"[\W_]{1,8}")
    return Rule(tuple(anchors.split("|")), joined, _WHY.format(name))


NATIVE = (
    _native(
        "Chinese",
        "忽略|无视|無視|忘记|忘記|忽视|忽視|不理会|丢弃|记住|記住|牢记|牢記|记得|記得|现在|現在|今后|以后|总是|總是"
        "|始终"
        "|始終|务必|務必|永远|永遠|一律|每次|必须|必須|会话|會話|对话|對話|助手|智能体",
        r"(?:忽略|无视|無視|忘记|忘記|忽视|忽視|不理会|丢弃).{0,8}(?:之前|以上|先前|上面|前面|所有|此前|一切|指令"
        r"|指示)",
        r"(?:忽略|无视|無視|忘记|忘記).{0,8}(?:规则|規則|提示)|记住|記住|牢记|牢記|请记得|請記得",
        r"(?:从|從)(?:现在|現在|今)(?:开始|開始|起|以后|以後|往后)|今后(?:都|总|每|请|始终|要)|以后(?:都|每次|请|要"
        r"|总)",
        r"(?:总是|總是|始终|始終|务必|務必|永远|永遠|一律|必须|必須).{0,6}(?:运行|運行|执行|執行|使用|调用|調用|下载"
        r"|下載)",
        r"每次.{0,6}(?:运行|運行|执行|執行|调用|調用)|(?:所有|每个|每次|未来|将来|將來).{0,4}(?:会话|會話|对话|對話)",
        r"(?:致|给|給)(?:ai|人工智能|助手|智能体|模型)",
    ),
    _native(
        "Japanese",
        "指示|命令|プロンプト|ルール|覚え|記憶|忘れ|今後|これから|常に|必ず|いつも|毎回|アシスタント|エージェント",
        r"(?:以前|これまで|今まで|上記|前述|先|すべて|全て|従来)の.{0,6}(?:指示|命令|プロンプト|ルール"
        r"|設定).{0,6}(?:無視|忘れ|破棄)",
        r"覚えて(?:おいて|おけ|おく|ください|下さい)|記憶(?:して|せよ|しろ)|忘れないで|忘れずに",
        r"今後(?:は|も|常に|必ず|ずっと|すべて|の(?:すべて|全て|セッション))|これから(?:は|ずっと|常に)",
        r"(?:常に|必ず|いつも|毎回).{0,40}(?:実行|使用|使って|使い|呼び出|ダウンロード)",
        r"(?:アシスタント|エージェント|モデル|ai)(?:への|へ:|は必ず)",
    ),
    _native(
        "Korean",
        "지시|명령|규칙|프롬프트|기억|잊지|앞으로|지금부터|이제부터|항상|반드시|매번",
        r"(?:이전|위의|앞의|모든).{0,8}(?:지시|명령|규칙|프롬프트).{0,8}(?:무시|잊)|기억(?:해|하세요|하십시오|하라)",
        r"잊지[\W_]{0,3}(?:마|말)|(?:앞으로|지금부터|이제부터).{0,6}(?:항상|반드시|모든|는|계속)",
        r"(?:항상|반드시|매번).{0,40}(?:실행|사용|호출)",
    ),
    _native(
        "Russian or Ukrainian",
        "игнор|забудь|забыть|забыва|следуй|помни|момента|отныне|впредь|всегда|сесси|сеанс|разговор|диалог|обязательно"
        "|ассистент|агент|модел|ігнору|ятай|завжди|відтепер",
        r"(?:игнорируй|игнорировать|проигнорируй|забудь|забыть|не~следуй)(?:те)?~(?:\w{1,20}~){0,2}(?:предыдущ|прежн"
        r"|все|всё"
        r"|выше|инструкц|указан|правил|прошл)",
        r"(?:^|\W)(?:запомни|помни|не~забудь|не~забывай)(?:те)?(?:\W|$)|с~этого~момента|отныне|впредь",
        r"всегда~(?:\w{1,20}~){0,1}(?:запуска|выполня|использу|вызыва|скачива|делай)",
        r"(?:запускай|выполняй|используй)(?:те)?~(?:\w{1,20}~){0,1}всегда",
        r"(?:во~всех|в~каждо[йм]|в~будущих)~(?:\w{1,20}~){0,1}(?:сесси|сеанс|разговор|диалог)",
        r"обязательно~(?:запусти|выполни|скачай)|(?:для|внимание)~(?:ассистент|агент|модел)",
        r"ігноруй(?:те)?~|запам.?ятай|завжди~(?:запускай|виконуй)|відтепер",
    ),
    _native(
        "Arabic, Hindi or Turkish",
        "تجاهل|تذكر|الآن|دائم|निर्देश|याद|अब से|हमेशा|talimat|unutma|bundan sonra|her zaman",
        r"تجاهل.{0,20}(?:التعليمات|السابقة|الأوامر)|تذكر.{0,4}(?:دائما|دائمًا|:|أن)|من~الآن~فصاعد",
        r"دائم(?:ا|ًا|اً)~(?:شغل|نفذ|استخدم|قم)|(?:نفذ|شغل|استخدم)~(?:\w{1,20}~){0,1}دائم",
        r"(?:पिछले|पूर्व|सभी).{0,12}निर्देश.{0,12}(?:अनदेखा|भूल)|याद[\W_]{0,3}(?:रखें|रखो|रखना)|अब~से"
        r"|हमेशा.{0,30}(?:चलाए|चलाओ|उपयोग)",
        r"(?:önceki|tüm)~(?:\w{1,20}~){0,2}(?:talimatları|komutları)~(?:yok~say|unut)|unutma\W|bundan~sonra",
        r"her~zaman~(?:\w{1,20}~){0,2}çalıştır",
    ),
)
