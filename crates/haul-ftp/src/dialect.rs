//! Lines of LIST, which no standard describes: those of `ls -l` on Unix, those of MS-DOS and IIS, and EPLF.

use haul_core::entry::{Kind, Time, show};
use jiff::Timestamp;
use jiff::civil::{self, Date};
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::TimeZone;

use super::facts::{Facts, utc};

#[derive(Debug, Default)]
pub struct Listing {
    pub names: Vec<(Facts, Vec<u8>)>,
    /// The directory itself was among the names.
    pub shows_itself: bool,
    /// The first line that is in no known dialect, as it may be shown: the listing is not complete.
    pub unknown: Option<String>,
}

impl Listing {
    pub fn is_blank(&self) -> bool {
        self.names.is_empty() && !self.shows_itself && self.unknown.is_none()
    }
}

/// The names of a listing in any of the dialects. Times are as the server writes them, of its own zone and to the minute or the day;
/// a month in an unknown language has none.
pub fn parse(listing: &[u8]) -> Listing {
    let today = TimeZone::UTC.to_datetime(Timestamp::now()).date();
    let mut found = Listing::default();
    for line in listing.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() || is_total(line) {
            continue;
        }
        match unix(line, today).or_else(|| dos(line)).or_else(|| eplf(line)) {
            Some((_, name)) if matches!(name.as_slice(), b"." | b"..") => found.shows_itself = true,
            Some((facts, name)) => found.names.push((Facts { is_rough: facts.modified.is_some(), ..facts }, name)),
            None => drop(found.unknown.get_or_insert_with(|| show(&line[..line.len().min(200)]))),
        }
    }
    found
}

/// `total 12`, in any language of one word.
fn is_total(line: &[u8]) -> bool {
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let (word, number) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let is_word = !word.is_empty() && word.iter().all(|byte| !byte.is_ascii_digit());
    is_word && !number.is_empty() && number.iter().all(u8::is_ascii_digit) && words.next().is_none()
}

/// Words with the place where each ends.
fn words(line: &[u8]) -> impl Iterator<Item = (&[u8], usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + line[at..].iter().position(|byte| *byte != b' ')?;
        let end = line[start..].iter().position(|byte| *byte == b' ').map_or(line.len(), |length| start + length);
        at = end;
        Some((&line[start..end], end))
    })
}

/// `-rw-r--r--   1 owner  group   1234 Jan  2 03:04 name`, with a year in place of the time, with or without group or links.
fn unix(line: &[u8], today: Date) -> Option<(Facts, Vec<u8>)> {
    let kind = match line.first()? {
        b'-' => Kind::File,
        b'd' => Kind::Dir,
        b'l' => Kind::Link,
        b'p' => Kind::Fifo,
        b's' => Kind::Socket,
        b'c' => Kind::Char,
        b'b' => Kind::Block,
        _ => return None,
    };
    let mode = mode(line.get(1..10)?)?;
    let all: Vec<(&[u8], usize)> = words(line).take(16).collect();
    // The size stands in front of the date, whatever comes before it.
    let text = |at: usize| all.get(at).map(|(word, _)| String::from_utf8_lossy(word)).unwrap_or_default();
    let size_before = |at: usize| text(at - 1).parse::<u64>().ok();
    // The time, and the last of its words.
    let known = |at: usize| {
        let [first, second, third] = [text(at), text(at + 1), text(at + 2)];
        moment(&first, &second, &third, today).map(|time| (time, at + 2)).or_else(|| iso(&first, &second, &third, at))
    };
    let dated = (2..all.len()).find_map(|at| size_before(at).and_then(|size| known(at).map(|(time, last)| (size, Some(time), last))));
    let foreign =
        |at: usize| size_before(at).filter(|_| is_foreign_date(&text(at), &text(at + 1), &text(at + 2))).map(|size| (size, None, at + 2));
    let (size, modified, last) = dated.or_else(|| (2..all.len()).find_map(foreign))?;
    // One blank; others belong to the name.
    let name = line.get(all.get(last)?.1 + 1..).filter(|name| !name.is_empty())?;
    let mut facts = Facts { kind: Some(kind), size: Some(size), modified, mode: Some(mode), ..Facts::default() };
    if kind != Kind::Link {
        return Some((facts, name.to_vec()));
    }
    let arrow = name.windows(4).position(|part| part == b" -> ")?;
    facts.target = Some(name[arrow + 4..].to_vec());
    Some((facts, name[..arrow].to_vec()))
}

/// `rwxr-sr-t` as bits.
fn mode(letters: &[u8]) -> Option<u32> {
    let mut mode = 0;
    for (at, letter) in letters.iter().enumerate() {
        let bit = 0o400 >> at;
        let special = [0o4000, 0o2000, 0o1000][at / 3];
        mode |= match (letter, at % 3) {
            (b'-', _) => 0,
            (b'r', 0) | (b'w', 1) | (b'x', 2) => bit,
            (b's' | b't', 2) => bit | special,
            (b'S' | b'T', 2) => special,
            _ => return None,
        };
    }
    Some(mode)
}

/// `2020-01-02 03:04`, also with seconds and zone; and where its last word is.
fn iso(day: &str, clock: &str, zone: &str, at: usize) -> Option<(Time, usize)> {
    let has_seconds = clock.matches(':').count() == 2;
    let format = if has_seconds { "%Y-%m-%d %H:%M:%S" } else { "%Y-%m-%d %H:%M" };
    let clock = clock.split_once('.').map_or(clock, |(clock, _)| clock);
    let time = civil::DateTime::strptime(format, format!("{day} {clock}")).ok().filter(|time| time.year() >= 1900)?;
    let has_zone = has_seconds && zone.len() == 5 && zone.starts_with(['+', '-']);
    Some((utc(time), at + if has_zone { 2 } else { 1 }))
}

/// Month and day, in either order, and a clock or a year, with a month in another language.
fn is_foreign_date(first: &str, second: &str, third: &str) -> bool {
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let is_month = |word: &str| !word.is_empty() && !is_number(word) && !word.contains([':', '/', '-']);
    let is_day = |word: &str| {
        let digits = word.trim_end_matches(|c: char| !c.is_ascii_digit());
        is_number(digits) && digits.parse::<u32>().is_ok_and(|day| (1..=31).contains(&day))
    };
    let is_clock = third.split_once(':').is_some_and(|(hour, minute)| is_number(hour) && is_number(minute));
    let is_year = third.len() == 4 && is_number(third);
    (is_month(first) && is_day(second) || is_month(second) && is_day(first)) && (is_clock || is_year)
}

/// `+i8388621.48594,m825718503,r,s280,<TAB>name`: Easily Parsed LIST Format.
fn eplf(line: &[u8]) -> Option<(Facts, Vec<u8>)> {
    let line = line.strip_prefix(b"+")?;
    let at = line.iter().position(|byte| *byte == b'\t')?;
    let (facts, name) = (std::str::from_utf8(&line[..at]).ok()?, &line[at + 1..]);
    let mut found = Facts { kind: Some(Kind::Unknown), ..Facts::default() };
    for fact in facts.split(',').filter(|fact| !fact.is_empty()) {
        match fact.split_at_checked(1)? {
            ("/", "") => found.kind = Some(Kind::Dir),
            ("r", "") if found.kind != Some(Kind::Dir) => found.kind = Some(Kind::File),
            ("s", size) => found.size = size.parse().ok(),
            ("m", secs) => found.modified = secs.parse().ok().map(|secs| Time { secs, nanos: 0 }),
            ("u", mode) => found.mode = mode.strip_prefix('p').and_then(|mode| u32::from_str_radix(mode, 8).ok()).map(|mode| mode & 0o7777),
            _ => {}
        }
    }
    (!name.is_empty()).then(|| (found, name.to_vec()))
}

/// `Jan 2 03:04`, `Jan 2 2020`, or with the day in front. Without a year it is within the last one.
fn moment(first: &str, second: &str, third: &str, today: Date) -> Option<Time> {
    let text = [first.trim_end_matches(','), second.trim_end_matches(','), third].join(" ");
    let with_year = |format: &&str| Date::strptime(format, &text).ok().filter(|date| third.len() == 4 && date.year() >= 1900);
    if let Some(date) = ["%b %d %Y", "%d %b %Y"].iter().find_map(with_year) {
        return Some(utc(date.into()));
    }
    let mut time = ["%b %d %H:%M", "%d %b %H:%M"].iter().find_map(|format| BrokenDownTime::parse(format, &text).ok())?;
    let last = today.tomorrow().ok()?;
    let within = |year| {
        time.set_year(Some(year)).ok()?;
        // A day ahead may be another zone's today.
        time.to_datetime().ok().filter(|time| time.date() <= last)
    };
    [today.year(), today.year() - 1].into_iter().find_map(within).map(utc)
}

/// `01-02-20  03:04PM       <DIR>          name`, with two or four digits of a year, or `2020-01-02  15:04`, or `02.01.2020  15:04`.
fn dos(line: &[u8]) -> Option<(Facts, Vec<u8>)> {
    let all: Vec<(&[u8], usize)> = words(line).take(4).collect();
    let text = |at: usize| all.get(at).and_then(|(word, _)| std::str::from_utf8(word).ok());
    let days = ["%m-%d-%y", "%m-%d-%Y", "%Y-%m-%d", "%m/%d/%y", "%m/%d/%Y", "%Y/%m/%d", "%d.%m.%y", "%d.%m.%Y"];
    let day = text(0).and_then(|text| days.iter().find_map(|format| Date::strptime(format, text).ok()))?;
    let clock = text(1).and_then(|text| ["%I:%M%p", "%H:%M"].iter().find_map(|format| civil::Time::strptime(format, text).ok()))?;
    let (kind, size) = match text(2)? {
        "<DIR>" => (Kind::Dir, None),
        "<JUNCTION>" | "<SYMLINKD>" | "<SYMLINK>" => (Kind::Link, None),
        number => (Kind::File, Some(number.replace(',', "").parse().ok()?)),
    };
    let rest = &line[all.get(2)?.1..];
    // Directories have blanks after the word to fill the column; a name has none in front on these systems.
    let name = rest.trim_ascii_start();
    let mut facts = Facts { kind: Some(kind), size, modified: Some(utc(day.to_datetime(clock))), ..Facts::default() };
    // `name [target]`
    let arrow = name.windows(2).position(|pair| pair == b" [").filter(|_| kind == Kind::Link && name.ends_with(b"]"));
    let name = arrow.map_or(name, |at| {
        facts.target = Some(name[at + 2..name.len() - 1].to_vec());
        &name[..at]
    });
    (!name.is_empty()).then(|| (facts, name.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> (Facts, String) {
        let mut listing = parse(line.as_bytes());
        assert!(listing.names.len() == 1 && listing.unknown.is_none(), "{line}");
        let (facts, name) = listing.names.remove(0);
        (facts, String::from_utf8(name).expect("text"))
    }

    /// As the servers wrote them: vsftpd, ProFTPD, pure-ftpd, wu-ftpd, GNU ls, a server without groups, NetWare behind Unix.
    #[test]
    fn lines_of_unix_are_read() {
        for (line, kind, size, name) in [
            ("-rw-r--r--    1 0        0             123 Jan 02  2020 a.txt", Kind::File, 123, "a.txt"),
            ("-rw-------    1 1000     1000     4294967296 Feb 29  2024 big file ", Kind::File, 4_294_967_296, "big file "),
            ("-rw-r--r--   1 ftp      ftp            17 Mar  5  2019  leading", Kind::File, 17, " leading"),
            ("drwxr-xr-x    2 0        0            4096 Nov 23  2021 sub dir", Kind::Dir, 4096, "sub dir"),
            ("drwxrwsr-t+ 11 owner name staff 512 Dec 31  1999 pub", Kind::Dir, 512, "pub"),
            ("-rw-r--r-- 1 owner 99 Aug 08  2008 no-group", Kind::File, 99, "no-group"),
            ("-r--r--r--   1 user@dom  group 3 1 Jan 2001 day-first", Kind::File, 3, "day-first"),
            ("prw-r--r--    1 0        0               0 Jan 02  2020 fifo", Kind::Fifo, 0, "fifo"),
            ("-rw-r--r-- 1 0 0 5 2020-01-02 03:04 iso", Kind::File, 5, "iso"),
            ("-rw-r--r-- 1 0 0 5 2020-01-02 03:04:05.000000000 +0100 full iso", Kind::File, 5, "full iso"),
            ("-rw-r--r-- 1 1000 1000 5 déc. 12 10:22 french", Kind::File, 5, "french"),
            ("-rw-r--r-- 1 ftp ftp 5 12. Dez 2020 german", Kind::File, 5, "german"),
            ("-rw-r--r-- 1 ftp ftp 5 12月 31日 10:22 japanese", Kind::File, 5, "japanese"),
        ] {
            let (facts, found) = one(line);
            assert_eq!((facts.kind, facts.size, found.as_str()), (Some(kind), Some(size), name), "{line}");
        }
        let (link, name) = one("lrwxrwxrwx    1 0        0               4 Jan 02  2020 l -> ../a b");
        assert_eq!((link.kind, name.as_str(), link.target.as_deref()), (Some(Kind::Link), "l", Some(&b"../a b"[..])));
        let (facts, _) = one("-rwsr-x--T    1 0 0 1 Jan 02  2020 x");
        assert_eq!((facts.mode, facts.modified), (Some(0o5750), Some(Time { secs: 1_577_923_200, nanos: 0 })));
    }

    #[test]
    fn a_date_without_a_year_is_of_the_last_twelve_months() {
        let at = |today: &str, listed: [&str; 3]| {
            let time = moment(listed[0], listed[1], listed[2], today.parse().expect("a date"))?;
            Some(crate::facts::strftime("%F", time.secs))
        };
        for (today, listed, date) in [
            ("2026-11-23", ["Nov", "23", "10:00"], Some("2026-11-23")),
            ("2026-11-23", ["Nov", "24", "00:10"], Some("2026-11-24")),
            ("2026-11-23", ["Dec", "1", "10:00"], Some("2025-12-01")),
            ("2025-01-05", ["Feb", "29", "10:00"], Some("2024-02-29")),
            ("2026-11-23", ["Jan", "1", "24:00"], None),
        ] {
            assert_eq!(at(today, listed).as_deref(), date, "{listed:?}");
        }
    }

    #[test]
    fn lines_of_eplf_are_read() {
        let (file, name) = one("+i8388621.48594,m825718503,r,up644,s280,\tdjb.html");
        assert_eq!((file.kind, file.size, file.mode, name.as_str()), (Some(Kind::File), Some(280), Some(0o644), "djb.html"));
        assert_eq!(file.modified, Some(Time { secs: 825_718_503, nanos: 0 }));
        assert_eq!(one("+/,m824255907,\t514").0.kind, Some(Kind::Dir));
    }

    #[test]
    fn lines_of_dos_are_read() {
        for (line, kind, size, name) in [
            ("02-18-19  03:27PM       <DIR>          web site", Kind::Dir, None, "web site"),
            ("10-04-2021  12:05AM             1,234 a b.txt", Kind::File, Some(1234), "a b.txt"),
            ("2020-01-02  15:04  99 x", Kind::File, Some(99), "x"),
            ("18.02.2019  15:27       <DIR>          x", Kind::Dir, None, "x"),
            ("04-10-20  02:00PM       <JUNCTION>     Old Files [C:\\Users\\a b]", Kind::Link, None, "Old Files"),
        ] {
            let (facts, found) = one(line);
            assert_eq!((facts.kind, facts.size, found.as_str()), (Some(kind), size, name), "{line}");
        }
        assert_eq!(one("02-18-19  03:27PM 1 x").0.modified, Some(Time { secs: 1_550_503_620, nanos: 0 }));
    }

    #[test]
    fn a_listing_is_read_whole_or_the_line_is_named() {
        let listing = b"total 8\r\ndrwxr-xr-x 2 0 0 1 Jan 02  2020 .\r\ndrwxr-xr-x 2 0 0 1 Jan 02  2020 ..\r\n-rw-r--r-- 1 0 0 1 Jan 02  2020 a\r\n\r\n";
        let listed = parse(listing);
        assert!(listed.names.len() == 1 && listed.shows_itself && !listed.is_blank() && listed.unknown.is_none());
        let mixed = parse(b"-rw-r--r-- 1 0 0 1 Jan 02  2020 a\r\nls: b: no\r\n-rw-r--r-- 1 0 0 1 Jan 02  2020 c\r\n");
        assert_eq!((mixed.names.len(), mixed.unknown.as_deref()), (2, Some("ls: b: no")));
        for unknown in [
            "FOO.TXT;1  1/2  2-JAN-2020 03:04",
            "Volume in drive C",
            "-rw-r--r-- 1 0 0 x Jan 02 2020 a",
            "lrwxrwxrwx 1 0 0 1 Jan 02  2020 l",
        ] {
            assert_eq!(parse(unknown.as_bytes()).unknown.expect("unknown"), unknown);
        }
        assert!(parse(&[0xff; 300]).unknown.expect("unknown").len() < 2000);
    }
}
