"""Writes words.txt: plain English and programming words, 3 to 9 lower-case letters, one a line, sorted.

Verbs are inflected (-s, -ed, -ing), nouns get a plural, adjectives an adverb, by spelling rules; whatever comes
out longer than nine letters is left out. Run: python3 make_words.py > words.txt
"""

VERBS = """
accept access add adjust align allow announce answer append apply approve arrange ask assert assign attach avoid
balance batch begin bind block boost borrow bounce break bring broadcast buffer build bundle burn cache call cancel
capture carry cast catch change charge chart chase check choose claim clean clear click climb clone close collect
combine come commit compare compile complain complete compose compress compute confirm connect consume contain continue control
convert cook copy correct count cover crash crawl create cross cut cycle debug decide declare decode decrease defer define
delay delete deliver demand deny depend deploy derive describe deserve design detach detect develop dial digest direct
disable discard discover discuss dispatch display divide document double download draft drag drain draw dream drive drop
dump earn edit elect embed emit enable encode end enforce engage enjoy enqueue ensure enter equal erase escape estimate
evaluate evict examine exceed exchange exclude execute exist exit expand expect expire explain explore export expose
express extend extract fade fail fall fetch fight fill filter find finish fire fit fix flag flash flatten float flood flow
flush focus fold follow force forget fork form format forward frame free freeze function gain gather generate get give grab
grant group grow guard guess guide handle hang happen hash help hide hint hit hold hook hope host identify ignore import
improve include increase indent index infer inform inherit inject insert inspect install intend invent invest invite
invoke iterate join judge jump keep kick kill know label land last latch launch lead leak lean learn leave lift limit link
list listen live load lock log look loop lose love lower maintain make manage map mark mask match matter measure meet
mention merge migrate miss mix mock modify monitor mount move multiply name need negotiate nest normalize note notice
notify number observe obtain occur offer omit open operate order override overwrite own pack paint park parse part pass
paste patch pause pay perform permit pick pin ping pipe place plan plant play plot plug point poll pool pop populate post
predict prefer prepare present press pretend prevent print probe process produce profile promise promote prompt propose
protect prove provide prune publish pull purge push put query queue quit quote raise reach react read rebase rebuild
recall receive reclaim record recover recycle redirect reduce refactor refer reflect refresh refuse register reject relate
relax release reload rely remain remember remind remove rename render repair repeat replace replay reply report
represent request require reserve reset resize resolve respond restart restore restrict result resume retain retry
return reveal reverse revert review revise rewind rewrite ride roll rotate round route run sample save scale scan
schedule scope score scroll seal search select send separate serve set settle setup shape share shift ship show shuffle
shut sign signal skip sleep slice slide slow snap solve sort sound spawn speak specify spell spend spill spin split
spread stack stage stall stand start state stay step stick stop store stream stretch strip submit succeed suffer suggest
supply support suppose surface surround suspend swap switch sync tag take talk target teach tell test thank think throttle
throw tick tie toggle touch trace track trade train transfer translate travel treat trigger trim truncate trust try tune
turn type unlock unpack update upgrade upload use validate value vary verify view visit vote wait wake walk want warn wash
watch wear weigh widen win wipe wire wish wonder work wrap write yield
"""

NOUNS = """
ability account action actor adapter address advice agency agent agreement airport alarm album alert alias amount anchor
angle animal answer apple archive area argument arm army array arrow article artist aspect asset attempt attribute audience
author average award axis baby back bag ball band bank bar barrier base basis basket bat battery battle beach beam bean bear
beauty bed behavior being belief bell belt bench benefit bird birth bit blade blob blood board boat body bond bone book boot
border boss bottle bottom boundary bowl box boy bracket brain branch brand bread breath brick bridge brother browser brush
bubble bucket budget bug building bus business button byte cabinet cable cake camera camp candidate capacity capital captain
car carbon card care career carrier case cash castle cat category cause ceiling cell center century chain chair challenge
chance channel chapter character checksum cheese chest chicken child chip choice church circle circuit citizen city class
clause client climate clock closure cloth cloud club cluster coach coast coat code codec coffee coin collar college color
column command comment committee common community company component computer concept concern condition config conflict
consensus console constant contact container content contest context contract copper corner corpus cost council counter
country county couple course court cousin craft cream credit crew crime crisis cross crowd crown culture cup currency current
cursor curve customer daemon damage dance danger dark data database dataset date daughter day deadlock deal death debt decade
decision decoder default degree delta depth desert desk detail device diagram diamond diet diff digit dimension dinner
directory disk distance district divider doctor dog dollar domain door dot doubt dozen driver dust duty ear earth east
economy edge editor effect effort egg element elephant employee enemy energy engine engineer entity entrance entry envelope
epoch equation error escape event evidence example exception executor exercise expert extent eye fabric face fact factor
factory failure faith family fan farm fashion father fault favor fear feature field figure file film finding finger finish fish
fixture flame flavor fleet flight floor flour flower focus food foot forest formula fortune forum foundry fraction fragment
freedom friend front fruit fuel fun fund future galaxy game gap garden gas gate gateway gauge gear gender ghost gift girl glass
goal god gold golf government grade grain grammar grass gravity ground guest guitar gun habit hair half hall hammer hand
handler harbor hardware harm hat head header health heap heart heat height hero highway hill history hole holiday home honey
horizon horse hospital hotel hour house human humor hundred husband ice icon idea identity image impact incident income
index industry inference inner input insect instance integer interest interface interval invoice iron island issue item iterator
jacket job journal journey joy judge juice jury justice kernel key keyboard keyword kid kind king kitchen knee knife label
ladder lady lake lamp land lane language laptop latency law lawyer layer layout leader leaf league leg lemon length lesson
letter level lexer library license lid life light line lion lip liquid literal liver loan local location locker logger
logic lookup lord lot luck lunch machine macro magazine mail manager manifest manner marble margin marker market marriage master
mate matrix maximum meal meaning meat medal media medicine medium meeting member memory menu mercy message metal metadata
meter method metric middle midnight mile milk mill mind mine minimum minister minute mirror mission mistake mixture mode model
module moment money monkey month mood moon morning mother motion motor mountain mouse mouth movie museum music mutex
namespace nation nature neck needle neighbor nerve net network news night node noise noon north nose notebook nothing notion
novel nurse object ocean offset office officer oil onion opcode operand operator opinion option oracle orange orbit
origin outcome outer outline output oven overflow owner package packet page pain pair palace panel panic paper parent park
parser partner party passenger password past path patient pattern payload payment peace peer pencil people pepper percent period person
phase phone photo phrase piano picture piece pilot pipeline pixel pizza plane planet plastic plate platform player plugin pocket
poem poet pointer police policy politics port portion position potato pound power practice precision predicate prefix president
pressure price pride priest primary prince principle priority prison prize problem product profit program progress project
property protocol province proxy purpose quality quantity quarter queen question quota rabbit race rack radio rail rain random
range rank rate ratio reader reality realm reason receiver recipe reducer reference region registry relation relay religion
remote renderer replica repo reporter resource rest result retention revenue reward rice ring risk river road robot rock role
roof room root rope router row rule runner runtime safety sail salad salt sand sandbox scenario schema school science
screen script sea season seat second secret section sector security seed segment selector self semaphore sender sense
sensor sentence sequence serial server service session setting shadow shard sheep sheet shell shelter shield shirt shoe shop
shore shoulder sibling side sight silence silver singleton sink sister site size skill skin sky slot smoke snapshot
snow socket software soil soldier son song soul source south space span speaker species speech speed spirit spoon sport spot
spring square stadium staff stair standard star station status steam steel stem storage storm story strategy street strength
stress string struct student studio study stuff style subject subnet subset success suffix sugar suit summer sun supper surprise
symbol symptom syntax system table tail talent task taste tax tea teacher team telemetry template temple tenant tennis tension
term terminal text texture theme theory thing thread threat throat thumb thunder ticket timeout timer timestamp tissue title
toast token tokenizer tomato tone tongue tool tooth topic topology tower town toy tradition traffic trait transform trap tree
trial tribe trick trip truck truth tube tuple twin uncle union unit universe user utility vacation valley variable variant
vault vector vehicle vendor version vertex victim victory video village violin virtue virus vision visitor voice volume
wagon wall war warmup warning water wave way wealth weather web wedding week weight welcome west wheel whisper widget width wife
wind window wine wing winter wisdom woman wood wool word worker workflow workspace world worry wrapper writer yard year youth
zebra zone
"""

ADJECTIVES = """
able absent active actual afraid alive alone ancient angry annual anxious atomic aware awful bad basic big binary bitter black
blank blind blue bold brave brief bright brilliant broad broken brown busy calm careful casual central certain cheap chief civil
classic clever cold comfortable complex concrete constant cool correct crazy critical cruel curious current cyclic daily damp
dark dead deaf dear deep dense dependent different difficult direct dirty dirty distant double dry due dull dynamic eager early
eastern easy elastic elegant empty entire equal eternal exact excellent exotic explicit external extra fair false familiar famous fancy
fast fatal fierce final fine firm flat flexible foreign formal fragile frequent fresh friendly full funny future general generic gentle
giant glad global golden good grand grateful gray great greedy green gross guilty handsome handy happy hard harsh healthy heavy
helpful hidden high hollow honest hot huge humble hungry ideal idle illegal immutable implicit inactive initial inline innocent
internal invalid jealous joint junior just keen large late lazy legal light linear liquid little lively local logical lonely long
loose loud lovely low loyal lucky mad magic main major male manual massive mature mean medical mental mild military minor missing
mobile modern modest moral mutable mutual naive narrow nasty native natural naval neat negative nervous neutral new nice noble
normal northern novel null nullable obvious odd official old optional ordinary original pale parallel partial passive patient perfect
personal pink plain pleasant polite poor popular portable positive possible precise pretty previous prime private probable proper proud
public pure purple quick quiet random rapid rare raw ready real recent recursive red regular relative relevant reliable remote rich
rigid robust rough royal rude rural sacred sad safe same scalar secure senior sensible serious severe shallow sharp short shy
sick silent silly similar simple single skinny slight slim slow small smart smooth social soft solar solid sorry southern
sparse special specific stable stale static steady steep sticky stiff strange strict strong stupid sudden suitable sunny
super sure sweet swift symbolic tall tender terrible thick thin thirsty tight tiny tired top total tough toxic transient
trivial tropical true typical ugly unable unary uniform unique universal unknown unsafe unused upper upset urban urgent useful
usual vague valid vast verbose vertical vibrant virtual visible visual vital vivid volatile warm weak wealthy weird western wet white
whole wide wild willing wise wooden worth wrong yellow young
"""

OTHERS = """
about above across after again against ago ahead almost along already also although always among and another any anyone
anything anyway apart are around aside async away await became because been before behind below beneath beside best better
between beyond both bool but can char chmod const could crate def despite did does done down during each either elif else
elsewhere enough enum env even ever every everyone except false few finally first five float for forty four from further
given goes gone got had has have hello hence her here him his how however impl indeed inside instead int into its
itself json keys kwargs lambda later least left less let lib like lists made many maybe might mod more most much must mut near
neither never next nine none nor not now null off often once one only onto other others otherwise our out outside over own
per perhaps perf please plus pub quite rather ref regex respect right said same second self seven several shall she should
since six sixty some somehow someone something sometimes soon spec std still str such sudo super ten than that the their them
then there these they third this those though three through thus till today together tomorrow tonight too toward true
twelve twenty twice two under unless until upon usize utils vec very via void was well were what whatever when where
whether which while who whole whom whose why will with within without would yes yet you your zero argv async bash buf
cargo cfg cli cmd cpu ctx cur css csv cuda curl dev dict dir dirs dns docker doc docs dom dst dtype elem err exec expr fmt func
git gpu grep gui gzip hex href html http https idx init inode iter jit jobs kube len linux llm lru lhs max min mkdir msg nano
npm num numpy obj opt opts params pid pip prev proc ptr pytest python rand rhs rpc rust sdk sha shm sql src ssh ssl stderr
stdin stdout stdlib sum svg sys tar tcp tls tmp toml tty udp uid uri url utf uuid vim vpc xml yaml yml zip zsh
thousand million january february march april may june july august september october november december monday tuesday
wednesday thursday friday saturday sunday london paris berlin tokyo china india france spain italy japan russia canada
america europe africa asia english french german spanish chinese began brought built bought caught came chose
drawn driven drove eaten fallen felt flew flown forgot fought found frozen gave given grew grown heard held hidden kept knew
known laid led lent lost meant met paid proven ran rang read ridden risen rose sang sat saw seen sent shot shown shut slept
sold sought spent spoke spoken stole stood struck stuck swam sworn taken taught thought threw thrown told took understood
woke won wore worn wrote written
"""

# What the spelling rules make and nobody writes.
WRONG = """
begined binded breaked bringed builded casted catched choosed comed cutted drawed drived falled fighted finded forgeted
freezed getted gived growed hanged hided hitted holded keeped knowed leaded leaved losed maked meeted payed putted quited
readed rebuilded reseted rewinded rewrited rided runned sended setted shutted sleeped slided speaked spended spinned splited
spreaded standed sticked taked teached telled thinked throwed waked weared winned writed childs foots halfs hardwares healths
heros knifes leafs lifes medias datas moneys mouses musics newses peoples selfs sheeps softwares tooths traffics wealths
weathers wifes womans mans bluely brokenly easternly goldenly greenly hiddenly missingly modernly westernly woodenly afraidly
alively alonely anciently awarely bigly binarily blackly brownly complexly dailily damply deafly duely dullly earlily extraly
fastly foreignly fragily fullly futurely giantly goodly graily inlinely invalidly juniorly linearly liquidly littly livelily
lonelily longly lovelily majorly maly minorly mobily navally novelly nullably nullly oldly paly pinkly popularly primely
purply rawly redly samely scalarly seniorly shily sillily singly skinnily slimly smallly solarly sorrily staly stickily
superly tallly thirstily tiredly toply truely uglily unably unarily unknownly unusedly upperly upsetly urbanly volatily wetly
whitely wholy worthly yellowly youngly
"""

# Verbs of two syllables that double their last letter: submit, submitted.
STRESSED = """begin commit control defer forget infer occur omit emit permit prefer refer submit transfer reset regret admit""".split()

VOWELS = "aeiou"


def doubles(word):
    """Short stems ending in consonant, vowel, consonant double the last letter: stop, stopped."""
    return word in STRESSED or (len(word) <= 4 and len(word) >= 3 and word[-1] not in VOWELS + "wxyh" and word[-2] in VOWELS
            and word[-3] not in VOWELS)


def plural(word):
    if word.endswith("y") and word[-2] not in VOWELS:
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "z", "ch", "sh")) else "s")


def suffixed(word, suffix):
    if word.endswith("e"):
        return word[:-1] + suffix if suffix != "ing" or not word.endswith("ee") else word + suffix
    if word.endswith("y") and word[-2] not in VOWELS and suffix != "ing":
        return word[:-1] + "i" + suffix
    return word + (word[-1] if doubles(word) else "") + suffix


def adverb(word):
    if word.endswith("y"):
        return word[:-1] + "ily"
    if word.endswith("le"):
        return word[:-1] + "y"
    return word + ("ally" if word.endswith("ic") else "ly")


def main():
    words = set(OTHERS.split())
    for verb in VERBS.split():
        words |= {verb, plural(verb), suffixed(verb, "ed"), suffixed(verb, "ing")}
    for noun in NOUNS.split():
        words |= {noun, plural(noun)}
    for adjective in ADJECTIVES.split():
        words |= {adjective, adverb(adjective)}
    words -= set(WRONG.split())
    for word in sorted(w for w in words if 3 <= len(w) <= 9 and w.isascii() and w.isalpha() and w.islower()):
        print(word)


main()
