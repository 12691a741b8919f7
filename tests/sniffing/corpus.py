"""Small files whose dialect is hard to guess, each with its dialect written down by hand.

Their traits are those of public files: titles and comments before the header, ragged rows, decimal
commas, stray quotes, rows that end with a delimiter, several tables in one file. Nothing here
parses. Every third file of the first list (`held_out`) was not looked at while the guess was
written; those of the second one have traits that were found afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

TAB = "\t"


@dataclass(frozen=True, slots=True)
class Sample:
    """A file, and how a person reads it."""

    name: str
    text: str
    delimiter: str | None
    """None if every delimiter that does not occur reads it alike: it has one column."""
    quote: str | None = '"'
    header: bool = True
    skip_lines: int = 0
    encoding: str = "utf-8"
    file_name: str = "data"
    held_out: bool = False

    @property
    def data(self) -> bytes:
        """The file's bytes."""
        return self.text.encode(self.encoding)


def lines(*rows: str, end: str = "\n") -> str:
    return "".join(row + end for row in rows)


def joined(delimiter: str, *rows: Sequence[object], end: str = "\n") -> str:
    return lines(*(delimiter.join(map(str, row)) for row in rows), end=end)


CITIES = [
    ("Zürich", "8001", "415367", "CH"),
    ("Den Haag", "2491", "548320", "NL"),
    ("Saint-Denis", "93200", "112852", "FR"),
    ("Bad Homburg", "61348", "54795", "DE"),
    ("L'Aquila", "67100", "69902", "IT"),
    ("Newcastle upon Tyne", "NE1", "300196", "GB"),
]
CITY_HEAD = ("city", "postcode", "people", "country")
PRICES = [(f"A-{n:03}", f"{n * 7 % 90},{n * 13 % 100:02}", f"{n},5", f"{n % 28 + 1:02}.03.2021")
          for n in range(1, 15)]  # fmt: skip
PRICE_HEAD = ("article", "price", "weight", "since")
NOTES = [
    "Call back, please; he was out",
    "Nothing, really",
    "One, two, three, and so on",
    "No marks here",
    "Ask Jo, Ann, Lee",
    "Done",
]
LOG = [(f"2021-03-0{n} 10:{n:02}:00", "INFO", f"worker {n}: done, {n} rows, 0 errors")
       for n in range(1, 9)]  # fmt: skip
INCH = [("screw", '3/4" zinc', 10), ("bolt", 'M6 "long', 7), ("nut", "M6", 50),
        ("plate", '5"', 3), ("rod", '12" x 2"', 1), ("hook", "plain", 8)]  # fmt: skip

_FILES = [
    # Plain files with each delimiter.
    Sample("comma", joined(",", CITY_HEAD, *CITIES), ","),
    Sample("semicolon", joined(";", CITY_HEAD, *CITIES), ";"),
    Sample("tab", joined(TAB, CITY_HEAD, *CITIES), TAB),
    Sample("pipe", joined("|", CITY_HEAD, *CITIES), "|"),
    Sample("caret", joined("^", CITY_HEAD, *CITIES), "^"),
    Sample("pipe tilde pipe", joined("|~|", CITY_HEAD, *CITIES), "|~|"),
    Sample("double pipe", joined("||", CITY_HEAD, *CITIES), "||"),
    Sample("tilde", joined("~", CITY_HEAD, *CITIES), "~"),
    Sample("unit separator", joined("\x1f", CITY_HEAD, *CITIES), "\x1f"),
    Sample("start of heading", joined("\x01", CITY_HEAD, *CITIES), "\x01"),
    Sample("colon", lines("root:x:0:0:root:/root:/bin/sh", "bin:x:1:1:bin:/bin:/sbin/nologin",
                          "lp:x:4:7:lp:/var/spool/lpd:/bin/false",
                          "www:x:33:33:web:/var/www:/bin/sh"), ":", header=False),
    Sample("one space", joined(" ", ("host", "cpu", "mem", "disk"),
                               *((f"node{n}", n * 3, n * 5, n * 7) for n in range(1, 9))), " "),
    # Decimal commas and European dates.
    Sample("decimal commas", joined(";", PRICE_HEAD, *PRICES), ";"),
    Sample("decimal commas in each column", joined(";", ("x", "y", "z"), *(
        (f"{n},25", f"{n * 2},5", f"-{n},125") for n in range(1, 12))), ";"),
    Sample("decimal commas without header", joined(";", *(
        (f"{n},25", f"{n * 2},5") for n in range(1, 12))), ";", header=False),
    Sample("decimal commas between tabs", joined(TAB, PRICE_HEAD, *PRICES), TAB),
    Sample("thousands", lines("name,cost", 'a,"1,200"', 'b,"13,400"', 'c,"7,250,000"', "d,12"), ","),
    Sample("ragged decimal commas", joined(";", PRICE_HEAD, *PRICES[:5], ("A-9", "3,5"),
                                           *PRICES[5:8], ("total", "", "", "", ""), *PRICES[8:]), ";"),
    Sample("dates and decimal commas", joined(";", ("Datum", "Wert"), *(
        (f"{n:02}.01.2020 00:{n:02}", f"{n},{n}") for n in range(1, 20))), ";"),
    # Trailing delimiters.
    Sample("trailing delimiters", "".join(f"{row};\n" for row in joined(";", CITY_HEAD, *CITIES).splitlines()), ";"),
    Sample("trailing commas but header", lines('"x","y",x2,y2', *(
        f"{n}.5,-{n}.25,{n},{n * 7}.125," for n in range(1, 15))), ","),
    Sample("trailing semicolon but header", lines("a;b;c", *(f"{n};{n * 2};{n * 3};" for n in range(1, 9))), ";"),
    Sample("newline in last cell", '"name";"limit";"value";"status"\n"gk";"1440";"7678";"LIMIT";"\n"\n', ";"),
    Sample("newline in last cells", '"name";"limit";"value";"status"\n' + "".join(
        f'"gk{n}";"1440";"{n}";"LIMIT";"\n"\n' for n in range(1, 5)), ";"),
    # Lines before the header.
    Sample("title", lines("Cities of the North", "", *joined(",", CITY_HEAD, *CITIES).splitlines()), ",", skip_lines=2),
    Sample("title padded with delimiters", lines("Travel,,,", "Period: 1 May to 3 June,,,",
           *joined(",", CITY_HEAD, *CITIES).splitlines()), ",", skip_lines=2),
    Sample("two quoted titles", lines('"ID:GO:0014069      Name:density"', '"C=186; O=67; E=21.62; R=3.1"',
           '"user","symbol","name","gene"', *(f'"R{n}","R{n}","factor {n}, late","{n}"' for n in range(1, 10))), ",", skip_lines=2),
    Sample("hash comments", lines("# made by export 3.1", "# 2021-03-04, all units in mm",
           *joined(",", CITY_HEAD, *CITIES).splitlines()), ",", skip_lines=2),
    Sample("hash header", lines("# energy (MeV), n (cm2 g-1)", *(f"{n}.5,{n * 2}.25" for n in range(1, 12))), ","),
    Sample("many settings before", lines(*(f"#SETTING {n}:,{n}" for n in range(1, 10)), "##Temp./C,Time/min,tan d,E1,E2",
           *(f"{n}.1,{n}.2,{n}.3,{n}.4,{n}.5" for n in range(1, 20))), ",", skip_lines=9),
    Sample("preamble of pairs", lines("Station:;Humidity 7", "Operator:;K. Meier", "",
           *joined(";", PRICE_HEAD, *PRICES).splitlines()), ";", skip_lines=3),
    Sample("sep line", lines("sep=;", *joined(";", CITY_HEAD, *CITIES).splitlines()), ";", skip_lines=1),
    Sample("prose before", lines("This file lists cities, their codes, and their people.",
           "Ask the office for details; it is open on Mondays.",
           *joined("|", CITY_HEAD, *CITIES).splitlines()), "|", skip_lines=2),
    Sample("empty lines before", lines("", "", *joined(";", CITY_HEAD, *CITIES).splitlines()), ";"),
    Sample("note after", lines(*joined(";", CITY_HEAD, *CITIES).splitlines(), "", "Source: own, 2021, all rights"), ";"),
    Sample("header of two rows", lines(";2019;;2020;", "region;men;women;men;women", *(
        f"r{n};{n},1;{n},2;{n},3;{n},4" for n in range(1, 9))), ";"),
    Sample("header of three rows", lines("Year,,,", "Quarter,,,", "city,q1,q2,q3", *(
        f"c{n},{n},{n * 2},{n * 3}" for n in range(1, 9))), ","),
    # Stray quotes.
    Sample("tabs and lone quotes", joined(TAB, ("part", "size", "count"), *INCH), TAB, quote=None),
    Sample("tabs and lone quotes and commas", joined(TAB, ("id", "note", "who"), *(
        (n, f'he said "{note}', "J, K") for n, note in enumerate(NOTES))), TAB, quote=None),
    Sample("tabs and quotes that begin cells", joined(TAB, ("id", "title", "year"), *(
        (n, f'"{note.split()[0]} and more', 1990 + n) for n, note in enumerate(NOTES))), TAB, quote=None),
    Sample("pipes and lone quotes", joined("|", ("part", "size", "count"), *INCH), "|", quote=None),
    Sample("semicolons and inches", joined(";", ("part", "size", "count"), *INCH), ";"),
    Sample("bad quote in header", lines('DATE;"TIME"";Qty;Name', *(f"2018-06-{n:02};{n:02}:30;{n};Item {n}" for n in range(1, 10))), ";", quote=None),
    Sample("bad quote in comma header", lines('"id","na"me","year"', *(f'"{n}","name {n}","{1990 + n}"' for n in range(1, 10))), ","),
    Sample("open quote in last row", joined(",", CITY_HEAD, *CITIES) + '"Rome,00100,2873000,IT\n', ","),
    Sample("backslash quotes", lines("id,text,n", *(f'{n},"say \\"hi, {n}\\" twice",{n}' for n in range(1, 8))), ","),
    Sample("all quoted semicolons", lines(*('"' + '";"'.join(row) + '"' for row in [CITY_HEAD, *CITIES])), ";"),
    Sample("quoted rows of other delimiters", lines("id;list;end", *(f'{n};"a,b|c,d|e,f";z' for n in range(1, 8))), ";"),
    Sample("single quotes", lines("id,name,age", *(f"'{n}','Doe, J{n}','{n * 3}'" for n in range(1, 9))), ",", quote="'"),
    Sample("single quotes and semicolons", lines("'id';'name';'age'", *(f"'{n}';'Doe; J{n}';'{n * 3}'" for n in range(1, 9))), ";", quote="'"),
    Sample("apostrophes", lines("id,name", "1,O'Neill", "2,D'Arcy", "3,it's", "4,Smith", "5,'t Hooft"), ","),
    Sample("quoted newlines", lines("id,address,city", *(f'{n},"Road {n}\nFlat {n}; left",Town {n}' for n in range(1, 8))), ","),
    # Marks inside of cells.
    Sample("texts with commas", joined(";", ("id", "note", "score"), *(
        (n, note.replace(";", ""), n * 3) for n, note in enumerate(NOTES))), ";"),
    Sample("texts between tabs", joined(TAB, ("id", "note"), *((n, note) for n, note in enumerate(NOTES))), TAB),
    Sample("texts between pipes", joined("|", ("when", "level", "message"), *LOG), "|"),
    Sample("log between semicolons", joined(";", *LOG), ";", header=False),
    Sample("urls", joined(",", ("page", "hits"), *(
        (f"https://example.org/a;b?x=1|{n}&y={n}:8080", n * 10) for n in range(1, 9))), ","),
    Sample("json cells", joined("|", ("id", "data"), *(
        (n, f'{{"a": [{n}, 2, 3], "b": "x;y", "c": {{}}}}') for n in range(1, 8))), "|", quote=None),
    Sample("json cells between tabs", joined(TAB, ("id", "data", "ok"), *(
        (n, f'{{"a": {n}, "b": "x"}}', "yes") for n in range(1, 8))), TAB, quote=None),
    Sample("quoted json cells", lines("id,data", *(f'{n},"{{""a"": {n}, ""b"": ""x;y""}}"' for n in range(1, 8))), ","),
    Sample("lists in cells", joined(",", ("id", "tags", "n"), *((n, "a;b;c", n) for n in range(1, 9))), ","),
    Sample("lists in cells of semicolons", joined(";", ("id", "tags", "n"), *((n, "a,b,c", n) for n in range(1, 9))), ";"),
    Sample("times", joined(",", ("at", "no2"), *((f"01/01/2006 0{n}:15", f"{n}.72") for n in range(1, 9))), ","),
    Sample("times and not available", joined(";", ("at", "v"), *((f"0{n}:15:00", "NA" if n % 2 else f"{n},5") for n in range(1, 9))), ";"),
    Sample("paths", joined(",", ("file", "size"), *((f"C:\\data\\a b|c {n}.txt", n * 100) for n in range(1, 9))), ","),
    Sample("sparse", lines("a;b;c;d;e", *(("1;;;;", ";2;;;", ";;3,5;;", ";;;4;", ";;;;5") * 3)), ";"),
    # Few rows and columns.
    Sample("only a header", '"Department","Organisation","Unit","Grade","Minimum (£)"\n', ","),
    Sample("only a header of tabs", "id\tname, first\tage\n", TAB),
    Sample("one row of semicolons", "1;2,5;x;2020-01-01\n", ";", header=False),
    Sample("header and one row", lines("Total (m3);per head;cost", '"44,761";13,9;68'), ";"),
    Sample("one column", lines("name", *(name for name, *_ in CITIES)), None),
    Sample("one column of prose", lines("note", *NOTES), None),
    Sample("one column of numbers", lines("n", *map(str, range(1, 9))), None),
    Sample("one column of decimal commas", lines("Wert", *(f"{n},5" for n in range(1, 9))), None),
    Sample("one column of dates", lines("day", *(f"2020-01-0{n} 10:00" for n in range(1, 9))), None),
    Sample("two columns of numbers", joined(",", *((f"0.0{n}", n * 2) for n in range(9))), ",", header=False),
    # Line ends, encodings and names.
    Sample("carriage returns", joined(";", CITY_HEAD, *CITIES, end="\r"), ";"),
    Sample("utf-16", "\ufeff" + joined(TAB, CITY_HEAD, *CITIES, end="\r\n"), TAB, encoding="utf-16-le"),
    Sample("named tsv", joined(TAB, ("id", "a,b,c"), *((n, "x,y,z") for n in range(1, 9))), TAB, file_name="data.tsv"),
    Sample("named tsv.gz with quotes", joined(TAB, ("id", "a,b"), *((n, f'"{n},y') for n in range(1, 9))), TAB, quote=None, file_name="data.tsv.gz"),
    Sample("named psv", joined("|", ("id", "a,b"), *((n, f"{n},y") for n in range(1, 9))), "|", file_name="data.psv"),
    Sample("several tables", lines("Summary of travel,", ",", "Row Labels,Sum", "Hotels,227799.88", "Rail,1981067.75",
           ",", "Summary of paper,", ",", "Row Labels,Sum", "Ink,62.96", "Pens,43.13"), ",", skip_lines=2),
]  # fmt: skip

_SURVEYED = [
    # Rows of another length than the header, all alike.
    Sample("row names without a name", lines('"x";"x";"Load";"Valid?"', *(
        f'"Dim.  {n}";"{n % 2}";"{n % 3 % 2}";"0.9{n}";"TRUE"' for n in range(1, 9))), ";"),
    Sample("rows shorter than the header", lines('"Task","Title","Made","Note","Code","Approve","Reject"', *(
        f'"3Q{n}","A survey, about you","Tue May {n} 12:54:08 2018","Batch:{n};Template:9;","W{n}"' for n in range(1, 9))), ","),
    Sample("rows three times as long as the header", lines("RUN, 1_ 1, 1_ 2", *(
        f"{n},0,{n % 3},0,1,0,0,{n % 2}," for n in range(1, 9))), ","),
    Sample("header ends with a delimiter and rows do not", joined(";", ("Age", "Abies", "Salix alba", ""), *(
        (f"{n * 30}.6", n % 4, n * 3) for n in range(1, 12))), ";"),
    Sample("matrix with trailing delimiters", lines(*(f"{n}.6;{n * 7}.04;-0.05{n};{n * 3}.9;" for n in range(1, 12))), ";", header=False),
    # Titles, footers and headers of several rows.
    Sample("title with more fields", lines("Made as New Set,Sample 7 By Ann Date Sunday, May 11 2020", "cm-1,%T", *(
        f"{n}.00,98.{n}" for n in range(3990, 4000))), ",", skip_lines=1),
    Sample("padded title over full header", lines("Water use,,", "Total use (m3),Use (m3)/ head,Cost (k)", '"44,761",13.9,68'), ",", skip_lines=1),
    Sample("padded title over gappy header", lines("Meetings,,,,", "Who,Month,With,Why,", 'Ann Lee,Oct-14,Red Cross,"Talk, of plans",',
           ",,Blue Cross,,", ",,Green Cross,,", "Bo Ray,Nov-14,Crescent,Lunch,"), ",", skip_lines=1),
    Sample("padded titles and carriage returns", lines("Bo Ray,,,", "Costs: May to June,,,", "Date,Where,Rail,Total",
           "04/04/2014,Cardiff,£65.60,£65.60", "09/04/2014,London,,£16.00", ",Total,,£81.60", end="\r"), ",", skip_lines=2),
    Sample("pairs of columns", lines("pine,,larch,", "X,Y,X,Y", *(f"{n}.25,{n * 3}.5,{n}.75,{n * 4}.5" for n in range(1, 9))), ",", skip_lines=1),
    Sample("header of five rows", lines("People employed,,,", ",,2013-14,2012-13", ",Permanent,,Total", "Unit,,,", "name,staff1,Others2,Restated",
           '"Office, main",609,2,672', "Reform,116,-,119", 'Total,"2,035",228,"2,327"'), ",", skip_lines=4),
    Sample("footer of one cell", lines("Posted,Who,Net", *(f"0{n}/02/2016,HOTEL {n},{n}15.16" for n in range(1, 9)), ",,", ",,",
           "All payments are made by card; see the contract,,"), ","),
    Sample("spaces after commas", lines(*(f"0.{n}, 1.366{n}, 0.0, {n}.5" for n in range(1, 9))), ",", header=False),
    Sample("latin header", lines('"Post","Pay floor (£)","Pay ceiling (£)"', *(f'"SC{n}; a","{n}000","{n}999"' for n in range(1, 9))), ",", encoding="cp1252"),
]  # fmt: skip

SAMPLES = [
    *(
        Sample(
            *(each.name, each.text, each.delimiter, each.quote, each.header, each.skip_lines),
            *(each.encoding, each.file_name),
            held_out=number % 3 == 2,
        )
        for number, each in enumerate(_FILES)
    ),
    *_SURVEYED,
]
