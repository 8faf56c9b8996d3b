"""Keys and tokens that their issuers made recognisable: a fixed beginning and a known shape.

One row a shape. An anchor is a piece of text that is in every such key; it is what the scan looks for, and the pattern
is tried only where an anchor stands. Patterns have bounded repetitions, so that a text is read in time
proportional to its length whatever it holds. A pattern starts at the anchor unless `back` says how far before it at
most, and `least` how far at least.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple


class Shape(NamedTuple):
    """One recognisable kind of secret; the secret is the group `secret` if there is one, otherwise all of the match.

    The pattern is compiled when its anchor is first met: compiling all of them takes longer than most hooks may.
    """

    kind: str
    anchors: tuple[str, ...]
    source: str
    back: int = 0
    least: int = 0

    @property
    def pattern(self) -> re.Pattern[str]:
        return _compiled(self.source)


@cache
def _compiled(source: str) -> re.Pattern[str]:
    return re.compile(source)


# A key does not start in the middle of a word. Some tools glue keys to a name with `_` or `-`, so those do not count;
# neither do the letters of an escape, because much of what is read is JSON: `\nghp_...`, or has colours: `[92mghp_...`.
_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4})|(?<=[\[;][0-9]m)|(?<=[\[;][0-9][0-9]m))"
_END = r"(?![A-Za-z0-9])"
_UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"


def _shape(kind: str, anchors: str, pattern: str, *, back: int = 0, least: int = 0, start: str = _START) -> Shape:
    return Shape(kind, tuple(anchors.split()), start + pattern, back, least)


# How a number begins in base64, and what follows "pat" in few words.
_DIGITS = [one + two for one in ("MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT") for two in "AEIMQUYcgk"]
_PAT = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abdfgjklmnopqsuvwxyz"

SHAPES = (
    # clouds and hosting
    _shape("aws-key", "AKIA ASIA ABIA ACCA A3T", rf"(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{{16}}{_END}"),
    _shape("aws-key", "ABSK", r"ABSK[A-Za-z0-9+/]{90,400}={0,2}"),
    _shape("aws-key", "bedrock-api-key-", r"bedrock-api-key-[A-Za-z0-9+/=]{30,2000}"),
    _shape("amazon-mws-key", "amzn.mws.", r"amzn\.mws\.[0-9a-z]{8}(?:-[0-9a-z]{4}){3}-[0-9a-z]{12}"),
    _shape("google-key", "AIza", r"AIzaSy[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])"),
    _shape("google-oauth", "GOCSPX-", r"GOCSPX-[A-Za-z0-9_-]{28}"),
    _shape("google-oauth", "ya29.", r"ya29\.[A-Za-z0-9_.-]{20,1000}"),
    _shape("google-oauth", "1//0", r"1//0[A-Za-z0-9_-]{40,200}"),
    _shape(
        "azure-secret",
        "Q~",
        r"[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}(?![\w~.-])",
        back=4,
        least=4,
        start=r"(?<![\w~.,@-])",
    ),
    _shape(
        "azure-secret",
        "AccountKey= SharedAccessKey=",
        r"(?:AccountKey|SharedAccessKey)=(?P<secret>[A-Za-z0-9+/]{40,90}={0,2})",
    ),
    _shape("azure-secret", "JQQJ99", rf"[A-Za-z0-9]{{52}}JQQJ99[A-Za-z0-9]{{10,26}}{_END}", back=52, least=52),
    _shape("azure-sas", "sig=", r"sig=(?P<secret>[A-Za-z0-9%]{43,100}(?:%3[dD]|={1,2}))"),
    _shape("alibaba-key", "LTAI", rf"LTAI[A-Za-z0-9]{{12,24}}{_END}"),
    _shape("tencent-key", "AKID", rf"AKID[A-Za-z0-9]{{32}}{_END}"),
    _shape("yandex-key", "AQVN", r"AQVN[A-Za-z0-9_-]{35,38}"),
    _shape("yandex-key", "t1.", r"t1\.[A-Z0-9a-z_-]{10,400}={0,2}\.[A-Za-z0-9_-]{86}={0,2}"),
    _shape("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", rf"do[opr]_v1_[a-f0-9]{{64}}{_END}"),
    _shape("cloudflare-token", "cfat_ cfut_ cfk_", rf"cf(?:at|ut|k)_[A-Za-z0-9]{{48}}{_END}"),
    _shape("cloudflare-key", "v1.0-", r"v1\.0-[a-f0-9]{24,64}-[a-f0-9]{146}"),
    _shape("heroku-key", "HRKU-", rf"HRKU-(?:[A-Za-z0-9_-]{{50,72}}|{_UUID})"),
    _shape("flyio-token", "fo1_ fm1a_ fm1r_ fm2_", r"(?:fo1_[\w-]{43}|fm(?:1[ar]|2)_[A-Za-z0-9+/]{60,1000}={0,3})"),
    _shape("vercel-token", "vcp_ vci_ vca_ vcr_ vck_", rf"vc[piark]_[A-Za-z0-9]{{24,80}}{_END}"),
    _shape("netlify-token", "nfp_", rf"nfp_[A-Za-z0-9_]{{36,44}}{_END}"),
    _shape("render-key", "rnd_", rf"rnd_[A-Za-z0-9]{{28,40}}{_END}"),
    _shape("supabase-key", "sbp_ sb_secret_", rf"(?:sbp_(?:v0_)?[a-f0-9]{{40}}|sb_secret_[\w-]{{20,60}}){_END}"),
    _shape("planetscale-token", "pscale_", r"pscale_(?:tkn|pw|oauth|otkn)_[\w.=-]{32,64}"),
    _shape("neon-key", "napi_", rf"napi_[a-z0-9]{{40,80}}{_END}"),
    _shape("mongodb-key", "mdb_sa_sk_", r"mdb_sa_sk_[A-Za-z0-9_-]{40}"),
    _shape(
        "docker-swarm-key", "SWMTKN-1- SWMKEY-1-", r"SWM(?:TKN-1-[a-z0-9]{50}-[a-z0-9]{25}|KEY-1-[A-Za-z0-9+/]{43})"
    ),
    _shape("akamai-token", "akab-", rf"akab-[a-z0-9]{{16}}-[a-z0-9]{{16}}{_END}"),
    _shape("definednet-key", "dnkey-", rf"dnkey-[A-Z0-9]{{26}}-[A-Z0-9]{{52}}{_END}"),
    _shape("nats-seed", "SUA SAA SOA SCA SNA", rf"S[UAOCN]A[A-Z2-7]{{55}}{_END}"),
    _shape("scaleway-key", "SCW", rf"SCW[A-Z0-9]{{17}}{_END}"),
    _shape(
        "tailscale-key", "tskey-", r"tskey-[a-z]{2,12}-[A-Za-z0-9]{6,24}(?:-[A-Za-z0-9]{20,50})?", start="(?<![A-Za-z])"
    ),
    _shape(
        "doppler-token",
        "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.",
        r"dp\.(?:pt|ct|sa|scim|audit|st(?:\.[a-z0-9_-]{2,35})?)\.[A-Za-z0-9]{40,44}",
    ),
    _shape("pulumi-token", "pul-", rf"pul-[a-f0-9]{{40}}{_END}"),
    _shape("terraform-token", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,80}", back=14, least=14),
    _shape("vault-token", "hvs. hvb. hvr.", r"hv[sbr]\.[A-Za-z0-9_-]{24,300}"),
    _shape("infracost-key", "ico-", rf"ico-[A-Za-z0-9]{{32}}{_END}"),
    _shape("age-key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    _shape("openshift-token", "sha256~", r"sha256~[A-Za-z0-9_-]{43}"),
    # models
    _shape("anthropic-key", "sk-ant-", r"sk-ant-[A-Za-z0-9]{2,12}-[A-Za-z0-9_-]{20,200}"),
    _shape("openrouter-key", "sk-or-", rf"sk-or-v1-[a-f0-9]{{64}}{_END}"),
    _shape("openai-key", "sk-", r"sk-(?:proj|svcacct|admin|None|service)-[A-Za-z0-9_-]{20,250}"),
    _shape("openai-key", "sk-", r"sk-[A-Za-z0-9_-]{16,160}T3BlbkFJ[A-Za-z0-9_-]{16,160}"),
    _shape("langfuse-key", "sk-lf-", rf"sk-lf-{_UUID}"),
    _shape("openai-key", "sk-", rf"sk-(?=[A-Za-z0-9]{{0,60}}[0-9])[A-Za-z0-9]{{20,100}}{_END}"),
    _shape("groq-key", "gsk_", rf"gsk_[A-Za-z0-9]{{52}}{_END}"),
    _shape(
        "huggingface-token",
        "hf_ api_org_",
        rf"(?:hf|api_org)_(?=[a-z]{{0,33}}[A-Z])(?=[A-Z]{{0,33}}[a-z])[A-Za-z]{{34}}{_END}",
    ),
    _shape("replicate-token", "r8_", rf"r8_[A-Za-z0-9]{{37,50}}{_END}"),
    _shape("perplexity-key", "pplx-", rf"pplx-[A-Za-z0-9]{{40,60}}{_END}"),
    _shape("xai-key", "xai-", rf"xai-[A-Za-z0-9_]{{50,90}}{_END}"),
    _shape("together-key", "tgp_v1_", r"tgp_v1_[A-Za-z0-9_-]{40,50}"),
    _shape("fireworks-key", "fw_", rf"fw_[A-Za-z0-9]{{22,50}}{_END}"),
    _shape("elevenlabs-key", "sk_", rf"sk_[a-f0-9]{{48}}{_END}"),
    _shape("langsmith-key", "lsv2_", r"lsv2_(?:pt|sk|sdk)_[a-f0-9]{32}_[a-f0-9]{10}"),
    _shape("nvidia-key", "nvapi-", r"nvapi-[A-Za-z0-9_-]{50,100}"),
    _shape("llamaindex-key", "llx-", rf"llx-[A-Za-z0-9_-]{{48}}{_END}"),
    _shape("pinecone-key", "pcsk_", r"pcsk_[A-Za-z0-9_]{50,100}"),
    _shape("cerebras-key", "csk-", rf"csk-[a-z0-9]{{48}}{_END}"),
    _shape("tavily-key", "tvly-", rf"tvly-[A-Za-z0-9-]{{20,50}}{_END}"),
    _shape("firecrawl-key", "fc-", rf"fc-[a-f0-9]{{32}}{_END}"),
    _shape("jina-key", "jina_", rf"jina_[A-Za-z0-9_-]{{40,80}}{_END}"),
    _shape("voyage-key", "pa-", rf"pa-[A-Za-z0-9_-]{{40,50}}{_END}"),
    # code hosts, chat, mail
    _shape("gh-token", "ghp_ gho_ ghu_ ghs_ ghr_", rf"gh[pousr]_[A-Za-z0-9]{{36,251}}{_END}"),
    _shape(
        "gh-token", "ghs_", r"ghs_[0-9]{1,12}_eyJ[A-Za-z0-9_-]{10,600}\.[A-Za-z0-9_-]{10,2000}\.[A-Za-z0-9_-]{20,700}"
    ),
    _shape("gh-token", "github_pat_", r"github_pat_[A-Za-z0-9_]{36,251}"),
    _shape(
        "gitlab-token",
        "glpat- gldt- glrt- glrtr- glcbt- glptt- glft- glimt- glagent- gloas- glsoat- glffct- glwt-",
        r"gl(?:pat|dt|rtr?|cbt|ptt|ft|imt|agent|oas|soat|ffct|wt)-[A-Za-z0-9_][A-Za-z0-9_.-]{18,300}",
    ),
    _shape("gitlab-token", "GR1348941", r"GR1348941(?=[0-9_-]{0,19}[A-Za-z])[A-Za-z0-9_-]{20}"),
    _shape("gitlab-token", "_gitlab_session=", r"_gitlab_session=(?P<secret>[0-9a-z]{32})"),
    _shape(
        "atlassian-token",
        "ATATT3 ATBB ATCTT3",
        r"AT(?:ATT3|BB|CTT3)[A-Za-z0-9_=.-]{24,400}(?:(?:%3[dD]|\\u003[dD]|\\{1,4}=)[A-F0-9]{8})?",
    ),
    _shape("bitbucket-token", "BBDC-", r"BBDC-[A-Za-z0-9+/@_-]{40,50}"),
    _shape(
        "sourcegraph-token",
        "sgp_",
        rf"sgp_(?:(?:[A-Fa-f0-9]{{16}}|local)_)?(?![A-Fa-f0-9]{{0,33}}?([A-Fa-f0-9])\1{{6}})[A-Fa-f0-9]{{40}}{_END}",
    ),
    _shape("segment-key", "sgp_", rf"sgp_[A-Za-z0-9]{{64}}{_END}"),
    _shape(
        "slack-token",
        "xoxb- xoxp- xoxa- xoxo- xoxr- xoxs- xoxe- xoxe.",
        r"(?:xox[abeoprs]-(?:[0-9]-)?[0-9A-F]{6,15}-[A-Za-z0-9-]{10,300}|xox(?:e(?:\.xox[bp])?|[bp])-[0-9]-[A-Za-z0-9-]{80,300})",
    ),
    _shape("slack-token", "xapp-", r"xapp-[0-9]-[A-Z0-9]{6,20}-[0-9]{6,20}(?:-[a-f0-9]{30,100})?"),
    _shape(
        "slack-webhook",
        "hooks.slack.com/",
        r"(?:https?://)?hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,200}",
        back=8,
    ),
    _shape(
        "discord-webhook",
        "discord.com/api/webhooks/ discordapp.com/api/webhooks/",
        r"(?:https?://)?(?:\w{2,8}\.)?discord(?:app)?\.com/api/webhooks/[0-9]{15,21}/[A-Za-z0-9_-]{60,90}",
        back=18,
    ),
    _shape(
        "discord-token", ".G", r"[MNO][A-Za-z0-9_-]{23,27}\.G[A-Za-z0-9_-]{5}\.[A-Za-z0-9_-]{27,40}", back=28, least=24
    ),
    _shape(
        "discord-token",
        " ".join(_DIGITS),
        r"(?:M[Tjz]|N[DTjz]|O[DT])[AEIMQUYcgk][A-Za-z0-9]{21,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27}(?:[A-Za-z0-9_-]{11})?(?![\w-])",
    ),
    _shape("telegram-token", ":AA", rf"[0-9]{{8,10}}:AA[A-Za-z0-9_-]{{33}}{_END}", back=10, least=8),
    _shape(
        "teams-webhook",
        ".webhook.office.com/ outlook.office.com/webhook/",
        r"(?:https?://)?(?:[a-z0-9]{1,40}\.webhook\.office\.com/webhookb2|outlook\.office\.com/webhook)/"
        r"[A-Za-z0-9@/_-]{60,300}",
        back=48,
    ),
    _shape("twilio-key", "SK", rf"SK[a-f0-9]{{32}}{_END}"),
    _shape("sendgrid-key", "SG.", r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}", start=""),
    _shape("mailgun-key", "key- pubkey-", rf"(?:pub)?key-[a-f0-9]{{32}}(?:[a-f0-9]{{32}})?{_END}"),
    _shape("mailchimp-key", "-us", rf"[a-f0-9]{{32}}-us[0-9]{{1,2}}{_END}", back=32, least=32),
    _shape("telnyx-key", "KEY", r"KEY[A-Z0-9]{26,34}_[A-Za-z0-9]{22}(?![\w-])"),
    _shape("brevo-key", "xkeysib-", r"xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}"),
    _shape("resend-key", "re_", rf"re_[A-Za-z0-9]{{8}}_[A-Za-z0-9]{{24}}{_END}"),
    # payment and shops
    _shape(
        "stripe-key",
        "sk_live_ sk_test_ rk_live_ rk_test_ sk_prod_ rk_prod_",
        rf"[sr]k_(?:live|test|prod)_[A-Za-z0-9]{{24,250}}{_END}",
    ),
    _shape("stripe-webhook", "whsec_", r"whsec_[A-Za-z0-9+/]{24,64}={0,2}"),
    _shape("square-token", "sq0", r"sq0[a-z]{3}-[A-Za-z0-9_-]{22,50}"),
    _shape("square-token", "EAAA", rf"EAAA[A-Za-z0-9+=_-]{{60}}{_END}"),
    _shape("paypal-token", "access_token$production$", r"access_token\$production\$[0-9a-z]{16}\$[0-9a-z]{32}"),
    _shape(
        "plaid-token",
        "access-sandbox- access-production- access-development-",
        rf"access-(?:sandbox|production|development)-{_UUID}",
    ),
    _shape(
        "shopify-token", "shpat_ shpss_ shpca_ shppa_ shptka_", rf"shp(?:at|ss|ca|pa|tka)_[A-Za-z0-9]{{32,40}}{_END}"
    ),
    _shape("mollie-key", "live_ test_", rf"(?:live|test)_(?=[A-Za-z]{{0,28}}[0-9])[A-Za-z0-9]{{30}}{_END}"),
    _shape("twitch-key", "live_", rf"live_[0-9]{{6,12}}_[A-Za-z0-9]{{30}}{_END}"),
    _shape("pagarme-key", "ak_live_ ak_test_", rf"ak_(?:live|test)_[A-Za-z0-9]{{30}}{_END}"),
    _shape("ramp-secret", "ramp_sec_", rf"ramp_sec_[A-Za-z0-9]{{48}}{_END}"),
    _shape("flexport-key", "shltm_", r"shltm_[A-Za-z0-9_-]{40}"),
    _shape("razorpay-key", "rzp_", rf"rzp_(?:live|test)_[A-Za-z0-9]{{14}}{_END}"),
    _shape("flutterwave-key", "FLWSECK", r"FLWSECK(?:_TEST)?-[A-Za-z0-9]{12,40}-X"),
    _shape("easypost-key", "EZAK EZATK EZTK", rf"EZ(?:AK|ATK|TK)[A-Za-z0-9]{{54}}{_END}"),
    _shape("duffel-token", "duffel_", r"duffel_(?:test|live)_[A-Za-z0-9_=-]{43}"),
    _shape("shippo-token", "shippo_", rf"shippo_(?:live|test)_[a-fA-F0-9]{{40}}{_END}"),
    _shape("instagram-token", "IGQ", rf"IGQ[VW][A-Za-z0-9_-]{{80,250}}{_END}"),
    _shape("salesforce-token", "00D", r"00D[A-Za-z0-9]{12,15}![A-Za-z0-9._]{60,140}"),
    _shape("dropbox-token", "sl.", r"sl\.(?:u\.)?[AB][A-Za-z0-9_-]{100,1500}"),
    _shape("facebook-token", "EAA", rf"EAA[A-Za-z0-9]{{80,300}}{_END}"),
    # packages and builds
    _shape("npm-token", "npm_", rf"npm_[A-Za-z0-9]{{36}}{_END}"),
    _shape("pypi-token", "pypi-Ag", r"pypi-Ag[A-Za-z0-9_-]{40,600}"),
    _shape("rubygems-key", "rubygems_", rf"rubygems_[a-f0-9]{{48}}{_END}"),
    _shape("nuget-key", "oy2", rf"oy2[a-z0-9]{{43}}{_END}"),
    _shape("crates-token", "cio", rf"cio[A-Za-z0-9]{{32}}{_END}"),
    _shape("clojars-token", "CLOJARS_", rf"CLOJARS_[a-z0-9]{{60}}{_END}"),
    _shape("docker-token", "dckr_pat_ dckr_oat_", r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,60}"),
    _shape("artifactory-key", "AKCp", rf"AKCp[A-Za-z0-9]{{60,80}}{_END}"),
    _shape("artifactory-key", "cmVmd", rf"cmVmd[A-Za-z0-9]{{59}}{_END}"),
    _shape("databricks-token", "dapi", rf"dapi[A-Fa-f0-9]{{32}}(?:-[0-9]{{1,2}})?{_END}"),
    _shape("circleci-token", "CCIPAT_ CCIPRJ_", r"CCIP(?:AT|RJ)_[A-Za-z0-9]{20,40}_[a-z0-9]{40}"),
    _shape("buildkite-token", "bkua_", rf"bkua_[a-z0-9]{{40}}{_END}"),
    _shape("dependencytrack-key", "odt_", rf"odt_[A-Za-z0-9]{{32,48}}{_END}"),
    _shape("apify-key", "apify_api_", r"apify_api_[A-Za-z0-9-]{36}"),
    _shape("scrapfly-key", "scp-", rf"scp-(?:live|test)-[a-z0-9]{{32}}{_END}"),
    _shape("alchemy-key", "alcht_", rf"alcht_[A-Za-z0-9]{{30}}{_END}"),
    _shape("adafruit-key", "aio_", rf"aio_[A-Za-z0-9]{{28}}{_END}"),
    _shape("wundergraph-key", "cosmo_", rf"cosmo_[a-f0-9]{{32}}{_END}"),
    _shape("spectral-token", "spu-", rf"spu-[a-z0-9]{{32}}{_END}"),
    _shape("harness-token", "pat. sat.", r"[ps]at\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}"),
    _shape("octopus-key", "API-", rf"API-[A-Z0-9]{{26}}{_END}"),
    _shape("prefect-key", "pnu_ pnb_", rf"pn[ub]_[A-Za-z0-9]{{36}}{_END}"),
    # observability and work
    _shape("sentry-token", "sntrys_", r"sntrys_eyJ[A-Za-z0-9+/=_-]{40,600}"),
    _shape("sentry-token", "sntryu_", rf"sntryu_[a-f0-9]{{64}}{_END}"),
    _shape(
        "newrelic-key",
        "NRAK- NRAA- NRRA- NRJS- NRBR- NRII- NRIQ- NRSP-",
        r"NR(?:AK-[A-Z0-9]{27}|(?:AA|RA)-[a-f0-9]{27,42}|(?:JS|BR)-[a-f0-9]{19}|I[IQ]-[A-Za-z0-9_-]{25,32}"
        r"|SP-[a-z]{2}[0-9]{2}[a-zA-Z0-9]{31})",
    ),
    _shape(
        "newrelic-key",
        "NRAL NRMA",
        rf"(?:[a-z0-9]{{36}}NRAL|[a-z0-9]{{2,8}}[a-f0-9]{{34}}-NRMA){_END}",
        back=42,
        least=36,
    ),
    _shape("newrelic-key", "px-api- px-dep-", r"px-(?:api|dep)-[0-9a-z]{8}(?:-[0-9a-z]{4}){3}-[0-9a-z]{12}"),
    _shape("pganalyze-key", "pgar_ pgaa_ pgap_", rf"pga[arp]_[A-Za-z0-9]{{27}}{_END}"),
    _shape("rootly-key", "rootly_", rf"rootly_[a-f0-9]{{64}}{_END}"),
    _shape("maxmind-key", "_mmk", rf"[A-Za-z0-9]{{6}}_[A-Za-z0-9]{{29}}_mmk{_END}", back=36, least=36),
    _shape("grafana-token", "glc_", r"glc_(?=[A-Za-z0-9+/]{0,60}[A-Za-z])[A-Za-z0-9+/]{32,400}={0,3}"),
    _shape("grafana-token", "glsa_", rf"glsa_[A-Za-z0-9]{{32}}_[A-Fa-f0-9]{{8}}{_END}"),
    _shape("honeycomb-key", "hcaik_", r"hcaik_[a-z0-9]{58}"),
    _shape(
        "dynatrace-token", "dt0c01. dt0s01. dt0s02. dt0s16.", r"dt0(?:c01|s01|s02|s16)\.[A-Z0-9]{8,24}\.[A-Z0-9]{64}"
    ),
    _shape("posthog-key", "phx_ phs_ phr_ pha_", rf"ph[xsra]_[A-Za-z0-9_]{{40,64}}{_END}"),
    _shape("launchdarkly-key", "sdk- api- mob-", r"(?:sdk|api|mob)-[0-9a-z]{8}(?:-[0-9a-z]{4}){3}-[0-9a-z]{12}"),
    _shape("sonar-token", "sqp_ squ_ sqa_", rf"sq[pua]_[a-f0-9]{{40}}{_END}"),
    _shape("notion-token", "ntn_", rf"ntn_[0-9]{{11}}[A-Za-z0-9]{{35}}{_END}"),
    _shape("notion-token", "secret_", rf"secret_[A-Za-z0-9]{{43}}{_END}"),
    _shape("linear-key", "lin_api_ lin_oauth_ lin_wh_", rf"lin_(?:api|oauth|wh)_[A-Za-z0-9]{{32,64}}{_END}"),
    _shape("figma-token", "figd_ figo_ figu_", r"fig[dou]_[A-Za-z0-9_-]{40,60}"),
    _shape("postman-key", "PMAK- PMAT-", rf"(?:PMAK-[a-fA-F0-9]{{24}}-[a-fA-F0-9]{{34}}|PMAT-[A-Z0-9]{{26}}){_END}"),
    _shape(
        "airtable-token", " ".join("pat" + c for c in _PAT), rf"pat[{_PAT}][A-Za-z0-9]{{13}}\.[a-f0-9]{{62,66}}{_END}"
    ),
    _shape("asana-token", "1/ 2/", rf"[12]/[0-9]{{15,17}}(?:/[0-9]{{15,17}})?:[a-f0-9]{{32}}{_END}"),
    _shape("hubspot-token", "pat-", rf"pat-(?:na|eu|ap)[0-9]-{_UUID}"),
    _shape("zoho-token", "1000.", rf"1000\.[a-f0-9]{{32}}\.[a-f0-9]{{32}}{_END}"),
    _shape("clickup-token", "pk_", rf"pk_[0-9]{{6,9}}_[A-Z0-9]{{30,32}}{_END}"),
    _shape("frameio-token", "fio-u-", r"fio-u-[A-Za-z0-9_=-]{64}"),
    _shape("mapbox-token", "sk.eyJ tk.eyJ", r"[st]k\.eyJ[A-Za-z0-9_-]{40,200}\.[A-Za-z0-9_-]{20,40}"),
    _shape("voiceflow-key", "VF.", r"VF\.(?:[A-Z]{2}\.)?[a-f0-9]{24}\.[A-Za-z0-9]{16}"),
    _shape("typeform-token", "tfp_", r"tfp_[A-Za-z0-9_.=-]{40,70}"),
    _shape("contentful-token", "CFPAT-", r"CFPAT-[A-Za-z0-9_-]{43}"),
    _shape("readme-key", "rdme_", rf"rdme_[a-z0-9]{{70}}{_END}"),
    _shape("intra42-secret", "s-s4t2", rf"s-s4t2(?:ud|af)-[a-f0-9]{{64}}{_END}"),
    _shape("onepassword-token", "ops_ey", r"ops_eyJ[A-Za-z0-9+/_-]{80,2000}={0,3}"),
    _shape(
        "onepassword-key",
        "A3-",
        rf"A3-[A-Z0-9]{{6}}-(?:[A-Z0-9]{{11}}|[A-Z0-9]{{6}}-[A-Z0-9]{{5}})-[A-Z0-9]{{5}}-[A-Z0-9]{{5}}-[A-Z0-9]{{5}}{_END}",
    ),
    # any issuer
    _shape("jwt", "eyJ", r"eyJ[A-Za-z0-9_-]{10,2000}\.eyJ[A-Za-z0-9_-]{10,4000}(?:\.[A-Za-z0-9_-]{10,1000})?"),
    _shape("jwt", "eyJ", r"eyJ[A-Za-z0-9_-]{16,2000}\.[A-Za-z0-9_-]{30,4000}\.[A-Za-z0-9_-]{20,1000}(?![\w-])"),
    # `-----BEGIN ... PRIVATE KEY` in base64, as in the secrets of Kubernetes; not of certificates and public keys.
    _shape(
        "private-key",
        "LS0tLS1CRUdJTi",
        r"LS0tLS1CRUdJTi(?:BSU0Eg|BEU0Eg|BFQyBQ|BQUklWQVRF|BPUEVOU1NI|BFTkNSWVBURUQg|BQR1AgUFJJ)"
        r"(?:[A-Za-z0-9+/]|\\n|\n){40,20000}={0,2}",
    ),
)
