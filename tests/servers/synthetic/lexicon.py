"""The vocabulary of the synthetic web: common words of ten languages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Lexicon:
    """The vocabulary of a language."""

    content: tuple[str, ...]
    function: tuple[str, ...]
    syllables: tuple[str, ...]  # of names
    missing: str  # text of a page for a missing URL
    glue: str = " "  # between a content word and its function word
    gap: str = " "  # between such pairs
    stop: str = ". "  # after a sentence
    legacy: str = ""  # an encoding other than UTF-8


def words(text: str) -> tuple[str, ...]:
    """Split a text at white space."""
    return tuple(text.split())


_LATIN = words(
    "ka ro mel tin sa bor lun vi dra pol ne gar osk hel mira ton fa ulm jes quin zor ba ely dun"
)

_ENGLISH = Lexicon(
    words("""house river morning garden teacher letter window street market winter summer children mother father school village mountain
        water kitchen bread coffee table doctor hospital train station ticket journey island harbour sailor weather storm forest animal
        horse bird singer music theatre painter picture museum history language sentence number question answer reason science
        engineer machine factory worker company money price customer government minister election newspaper reporter article opinion
        friend neighbour brother sister family birthday holiday evening supper candle blanket bottle pocket hammer needle thread
        bridge tower castle church square corner shadow light colour silver golden yellow green purple narrow ancient modern simple
        difficult quiet careful friendly without_work strange certain beautiful expensive possible walking reading writing building carrying
        remembering forgetting listening travelling learning finding losing bringing following waiting thinking speaking laughing
        opened closed answered arrived decided explained happened noticed promised received returned started stopped watched wished
        yesterday tomorrow sometimes always never already together perhaps almost suddenly slowly quickly nearly finally"""),
    words("""the of and to is are was were be been this that these those with your you it its for from by on as or not an have has had
        which can will would they their he his she her we our if when where how what there more than other all also into only but"""),
    _LATIN,
    "Page not found. The page that you asked for does not exist or was moved somewhere else.",
    legacy="windows-1252",
)

_GERMAN = Lexicon(
    words("""Haus Fluss Morgen Garten Lehrer Brief Fenster Straße Markt Winter Sommer Kinder Mutter Vater Schule Dorf Berg Wasser Küche
        Brot Kaffee Tisch Arzt Krankenhaus Zug Bahnhof Fahrkarte Reise Insel Hafen Wetter Sturm Wald Tier Pferd Vogel Sänger Musik
        Theater Maler Bild Museum Geschichte Sprache Satz Zahl Frage Antwort Grund Wissenschaft Maschine Fabrik Arbeiter Firma Geld
        Preis Kunde Regierung Minister Wahl Zeitung Bericht Meinung Freund Nachbar Bruder Schwester Familie Geburtstag Abend Kerze
        Flasche Tasche Hammer Nadel Faden Brücke Turm Schloss Kirche Platz Ecke Schatten Licht Farbe silbern golden gelb grün schmal
        alt neu einfach schwierig ruhig vorsichtig freundlich hungrig seltsam sicher schön teuer möglich gehen lesen schreiben bauen
        tragen erinnern vergessen hören fahren lernen finden verlieren bringen folgen warten denken sprechen lachen geöffnet
        geschlossen angekommen entschieden erklärt geschehen bemerkt versprochen zurückgekehrt begonnen beobachtet gestern heute
        manchmal immer niemals bereits zusammen vielleicht beinahe plötzlich langsam schnell endlich Jahrhundert Gesellschaft"""),
    words("""der die das und ist sind war waren ein eine einen einem einer nicht mit von zu auf für aus bei nach über unter durch wir ihr
        sie er es ich auch wenn weil dass oder aber noch schon nur wird werden wurde haben hat hatte sich dem den
        des im am zum zur"""),
    _LATIN,
    "Seite nicht gefunden. Die gesuchte Seite gibt es nicht oder sie wurde verschoben.",
    legacy="windows-1252",
)

_FRENCH = Lexicon(
    words("""maison rivière matin jardin professeur lettre fenêtre rue marché hiver été enfants mère père école village montagne eau
        cuisine pain café table médecin hôpital train gare billet voyage île port météo tempête forêt animal cheval oiseau chanteur
        musique théâtre peintre tableau musée histoire langue phrase nombre question réponse raison science machine usine ouvrier
        entreprise argent prix client gouvernement ministre élection journal article opinion ami voisin frère sœur famille
        anniversaire soir bougie bouteille poche marteau aiguille fil pont tour château église place coin ombre lumière couleur argenté
        doré jaune vert étroit ancien moderne simple difficile tranquille prudent aimable étrange certain beau cher possible marcher
        lire écrire construire porter oublier écouter voyager apprendre trouver perdre apporter suivre attendre penser parler rire
        ouvert fermé arrivé décidé expliqué remarqué promis reçu commencé regardé hier demain parfois toujours jamais déjà ensemble
        presque soudain lentement vite enfin siècle société travail pays"""),
    words("""le la les de des du et est sont était un une dans que qui pour pas avec sur par au aux ce cette ces son sa ses nous vous ils
        elle il on ne se plus mais ou où donc leur leurs être avoir fait comme tout tous même sans sous entre depuis"""),
    _LATIN,
    "Page introuvable. La page que vous cherchez n'existe pas ou elle a été déplacée.",
    legacy="windows-1252",
)

_SPANISH = Lexicon(
    words("""casa río mañana jardín maestro carta ventana calle mercado invierno verano niños madre padre escuela pueblo montaña agua
        cocina pan mesa médico tren estación billete viaje isla puerto tiempo tormenta bosque animal caballo pájaro cantante música
        teatro pintor cuadro museo historia lengua frase número pregunta respuesta razón ciencia máquina fábrica obrero empresa dinero
        precio cliente gobierno ministro elección periódico noticia opinión amigo vecino hermano hermana familia cumpleaños tarde
        botella bolsillo martillo aguja hilo puente torre castillo iglesia plaza esquina sombra luz color plata dorado amarillo verde
        estrecho antiguo moderno sencillo difícil tranquilo cuidadoso amable extraño seguro hermoso caro posible caminar leer escribir
        construir llevar olvidar escuchar viajar aprender encontrar perder traer seguir esperar pensar hablar reír abierto cerrado
        llegado decidido explicado prometido recibido empezado mirado ayer siempre nunca juntos quizás casi despacio rápido
        finalmente siglo sociedad trabajo país ciudad corazón palabra"""),
    words("""el la los las de del y es son era un una en que por para no con su sus al se lo le les como más pero o cuando donde este esta
        estos muy sin sobre entre también hasta desde todo todos ya hay nos fue han ser está están porque"""),
    _LATIN,
    "Página no encontrada. La página que busca no existe o se ha cambiado de lugar.",
    legacy="windows-1252",
)

_RUSSIAN = Lexicon(
    words("""дом река утро сад учитель письмо окно улица рынок зима лето дети мать отец школа деревня гора вода кухня хлеб кофе стол врач
        больница поезд вокзал билет путешествие остров гавань погода буря лес животное лошадь птица певец музыка театр художник картина
        музей история язык предложение число вопрос ответ причина наука машина завод рабочий компания деньги цена покупатель
        правительство министр выборы газета статья мнение друг сосед брат сестра семья праздник вечер свеча бутылка карман молоток игла
        нитка мост башня замок церковь площадь угол тень свет цвет серебряный золотой жёлтый зелёный узкий древний современный простой
        трудный тихий осторожный дружелюбный странный красивый дорогой возможный идти читать писать строить нести помнить забывать
        слушать ехать учиться находить терять приносить следовать ждать думать говорить смеяться открыл закрыл ответил приехал решил
        объяснил заметил обещал получил вернулся начал вчера завтра иногда всегда никогда вместе почти медленно быстро наконец"""),
    words("""и в не на что с по это как его он она они мы вы к но из у за от о для так же бы был была были есть или если когда где то только
        уже ещё всё этот эта эти который которые их её под до при после без между через чтобы"""),
    words(
        """ка ро мел тин са бор лун ви дра пол не гар
        оск хел мира тон фа ульм жес кун зор ба эли дун"""
    ),
    "Страница не найдена. Страница, которую вы искали, не существует или была перемещена.",
    legacy="windows-1251",
)

_ARABIC = Lexicon(
    words("""بيت نهر صباح حديقة معلم رسالة نافذة شارع سوق شتاء صيف أطفال أم أب مدرسة قرية جبل ماء مطبخ خبز قهوة طاولة طبيب مستشفى قطار
        محطة تذكرة رحلة جزيرة ميناء طقس عاصفة غابة حيوان حصان طائر مغني موسيقى مسرح رسام صورة متحف تاريخ لغة جملة رقم سؤال جواب سبب
        علم آلة مصنع عامل شركة مال سعر زبون حكومة وزير انتخابات صحيفة مقال رأي صديق جار أخ أخت عائلة عيد مساء شمعة زجاجة جيب مطرقة
        إبرة خيط جسر برج قلعة ساحة زاوية ظل ضوء لون فضي ذهبي أصفر أخضر ضيق قديم حديث بسيط صعب هادئ لطيف غريب جميل غالي ممكن يمشي يقرأ
        يكتب يبني يحمل يتذكر ينسى يستمع يسافر يتعلم يجد يفقد ينتظر يفكر يتكلم يضحك فتح أغلق وصل قرر شرح لاحظ وعد استلم عاد بدأ أمس غدا
        أحيانا دائما أبدا معا تقريبا فجأة ببطء بسرعة أخيرا المدينة المجتمع العمل البلاد الكتاب الناس الحياة"""),
    words("""في من على إلى عن مع هذا هذه ذلك التي الذي كان كانت هو هي هم نحن أن إن لا لم لن ما قد كل بعض بين بعد قبل عند حتى أو ثم لكن
        كما منذ حيث أيضا فقط غير تحت فوق خلال"""),
    words("كا رو مل تن سا بو لو في درا بل نو جار هال ميرا طون فا جس زور با لي دن شم"),
    "الصفحة غير موجودة. الصفحة التي تبحث عنها غير موجودة أو تم نقلها إلى مكان آخر.",
    legacy="windows-1256",
)

_CHINESE = Lexicon(
    words("""房子 河流 早晨 花园 老师 信件 窗户 街道 市场 冬天 夏天 孩子 母亲
    父亲 学校 村庄 高山 清水 厨房 面包 咖啡 桌子 医生 医院 火车 车站
        车票 旅行 岛屿 港口 天气 风暴 森林 动物 骏马 小鸟 歌手 音乐 剧院 画家 图画 博物馆 历史 语言 句子 数字 问题 答案 原因 科学 工程师
        机器 工厂 工人 公司 金钱 价格 顾客 政府 部长 选举 报纸 记者 文章 意见 朋友 邻居 兄弟 姐妹 家庭 生日 假期 晚上 晚饭 蜡烛 瓶子 口袋
        锤子 桥梁 高塔 城堡 教堂 广场 角落 影子 光线 颜色 银色 金色 黄色 绿色 狭窄 古老 现代 简单 困难 安静 小心 友好 奇怪 美丽 昂贵 可能
        走路 阅读 写作 建造 携带 记得 忘记 倾听 学习 发现 失去 带来 跟随 等待 思考 说话 打开 关闭 回答 到达 决定 解释 发生 注意 收到 回来
        开始 停止 昨天 明天 有时 总是 已经 一起 也许 几乎 突然 慢慢 终于 世界 社会 工作 国家 城市 经济 文化"""),
    words(
        "的 了 在 是 和 有 不 也 就 都 这 那 我们 他们 她 他 你 从 对 为 与 而 但 因为 所以 如果 可以 会 要 到 把 被 让 向 还 很 最"
    ),
    words("林 王 张 李 陈 海 明 华 文 志 国 建 春 玉 兰 英 伟 强 芳 敏 静 丽 军 杰"),
    "找不到页面。您要找的页面不存在，或者已经移到别的地方。",
    glue="",
    gap="",
    stop="。",
    legacy="gbk",
)

_JAPANESE = Lexicon(
    words("""家 川 朝 庭 先生 手紙 窓 通り 市場 冬 夏 子ども 母 父 学校
    村 山 水 台所 パン コーヒー テーブル 医者 病院 電車 駅 切符 旅行 島 港
        天気 嵐 森 動物 馬 鳥 歌手 音楽 劇場 画家 絵 博物館 歴史 言葉 文章 数字 質問 答え 理由 科学 機械 工場 労働者 会社 お金 値段 お客さん
        政府 大臣 選挙 新聞 記者 記事 意見 友だち 隣の人 兄弟 姉妹 家族 誕生日 休み 夜 夕食 ろうそく 瓶 ポケット 針 糸 橋 塔 城 教会 広場
        角 影 光 色 銀色 金色 黄色 緑 古い町 新しい店 静かな部屋 美しい海 高い建物 小さな船 大きな木 昨日 明日 時々 いつも 一緒 世界 社会
        仕事 国 都市 経済 文化 歩いて 読んで 書いて 作って 運んで 覚えて 忘れて 聞いて 学んで 見つけて 待って 考えて 話して 笑って"""),
    words(
        "は が を に で と の も へ から まで より など では には という です ます でした ました している ある いる そして しかし また"
    ),
    words(
        "カ ロ メル ティン サ ボル ルン ヴィ ドラ ポル ネ ガル ヘル ミラ トン ファ ジェス ゾル バ エリ ダン キ"
    ),
    "ページが見つかりません。お探しのページは存在しないか、別の場所に移動しました。",
    glue="",
    gap="",
    stop="。",
    legacy="shift_jis",
)

_KOREAN = Lexicon(
    words("""집 강 아침 정원 선생님 편지 창문 거리 시장 겨울 여름 아이들 어머니
    아버지 학교 마을 산 물 부엌 빵 커피 책상 의사 병원 기차 역 표
        여행 섬 항구 날씨 폭풍 숲 동물 말 새 가수 음악 극장 화가 그림 박물관 역사 언어 문장 숫자 질문 대답 이유 과학 기계 공장 노동자 회사
        돈 가격 손님 정부 장관 선거 신문 기자 기사 의견 친구 이웃 형제 자매 가족 생일 휴일 저녁 촛불 병 주머니 망치 바늘 실 다리 탑 성 교회
        광장 모퉁이 그림자 빛 색깔 세계 사회 일 나라 도시 경제 문화 오래된마을 새로운가게 조용한방 아름다운바다 높은건물 작은배 어제 내일
        때때로 언제나 함께 아마 거의 갑자기 천천히 빨리 마침내 사람 시간 이야기 마음 생각 기억 노래 하늘 바람"""),
    words(
        "은 는 이 가 을 를 에 에서 으로 로 와 과 의 도 만 까지 부터 에게 보다 처럼 입니다 했습니다 합니다 있습니다 이라고 하고"
    ),
    words("카 로 멜 틴 사 볼 룬 비 드라 폴 네 갈 헬 미라 톤 파 제스 졸 바 엘리 둔 김 박"),
    "페이지를 찾을 수 없습니다. 찾으시는 페이지가 없거나 다른 곳으로 옮겨졌습니다.",
    glue="",
    legacy="euc-kr",
)

_HINDI = Lexicon(
    words("""घर नदी सुबह बगीचा शिक्षक पत्र खिड़की सड़क बाज़ार सर्दी गर्मी बच्चे
    माता पिता विद्यालय गाँव पहाड़ पानी रसोई रोटी चाय मेज़ डॉक्टर अस्पताल
        रेलगाड़ी स्टेशन टिकट यात्रा द्वीप बंदरगाह मौसम तूफ़ान जंगल जानवर
        घोड़ा पक्षी गायक संगीत नाटक चित्रकार चित्र संग्रहालय इतिहास भाषा वाक्य
        संख्या प्रश्न उत्तर कारण विज्ञान मशीन कारखाना मज़दूर कंपनी पैसा कीमत
        ग्राहक सरकार मंत्री चुनाव अख़बार पत्रकार लेख राय मित्र पड़ोसी भाई बहन
        परिवार जन्मदिन छुट्टी शाम मोमबत्ती बोतल जेब हथौड़ा सुई धागा पुल मीनार किला मंदिर चौक कोना छाया प्रकाश रंग सुनहरा पीला हरा पुराना नया
        आसान कठिन शांत सुंदर महँगा संभव चलना पढ़ना लिखना बनाना सुनना सीखना खोजना खोना इंतज़ार सोचना बोलना हँसना कल आज हमेशा कभी साथ शायद
        लगभग अचानक धीरे जल्दी दुनिया समाज काम देश शहर लोग समय कहानी"""),
    words("""है हैं था थे थी का के की को से में पर और या नहीं यह वह ये वे हम आप मैं जो कि तो भी ही एक कुछ सब लिए साथ बाद पहले अगर लेकिन
        जब तब यहाँ वहाँ क्या कैसे गया गई किया रहा रही रहे होता होती"""),
    words("का रो मे ति सा बो लू वि द्रा पो ने गा हे मी रा टो फा जे ज़ो बा ली दु"),
    "पृष्ठ नहीं मिला। आप जिस पृष्ठ को खोज रहे हैं वह मौजूद नहीं है या हटा दिया गया है।",
    stop="। ",
)

LEXICONS: dict[str, Lexicon] = {
    "en": _ENGLISH,
    "de": _GERMAN,
    "fr": _FRENCH,
    "es": _SPANISH,
    "ru": _RUSSIAN,
    "ar": _ARABIC,
    "zh": _CHINESE,
    "ja": _JAPANESE,
    "ko": _KOREAN,
    "hi": _HINDI,
}
"""By ISO 639-1 code."""

LANGUAGES = tuple(LEXICONS)
