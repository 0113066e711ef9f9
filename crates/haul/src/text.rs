//! Numbers, times and names as people read them, and how much room they take. Pure.

use std::time::Duration;

use haul_core::entry::show;
use haul_core::units::{UNITS, digits, finite, unit};
pub use haul_core::units::{bytes, count, rate};

/// `1 file`, `2 files`, `1 entry`, `2 entries`.
pub fn things(n: u64, one: &str) -> String {
    match one.strip_suffix('y') {
        _ if n == 1 => format!("1 {one}"),
        Some(stem) => format!("{} {stem}ies", count(n)),
        None => format!("{} {one}s", count(n)),
    }
}

/// `1.20 of 4.05 GiB`: both in the unit of the second.
pub fn bytes_of(done: u64, total: u64, between: &str) -> String {
    let power = unit(total as f64);
    let scale = 1024f64.powi(power as i32);
    let like = total as f64 / scale;
    format!("{}{between}{} {}", digits(done as f64 / scale, like, power), digits(like, like, power), UNITS[power])
}

/// Bits a second, by powers of 1000 as links are rated: `2.60 Gbit/s`.
pub fn bit_rate(bytes_per_second: f64) -> String {
    let gigabits = finite(bytes_per_second) * 8.0 / 1e9;
    match gigabits {
        x if x < 0.001 => format!("{x:.6} Gbit/s"),
        x if x < 1.0 => format!("{x:.3} Gbit/s"),
        x if x < 10.0 => format!("{x:.2} Gbit/s"),
        x => format!("{x:.1} Gbit/s"),
    }
}

/// `310 MiB/s now, 290 mean`: the second in the unit of the first, unless that would hide it.
pub fn rates(now: f64, mean: f64) -> String {
    let (now, mean) = (finite(now), finite(mean));
    let power = unit(now);
    if unit(mean) != power {
        return format!("{} now, {} mean", rate(now), rate(mean));
    }
    let value = mean / 1024f64.powi(power as i32);
    format!("{} now, {} mean", rate(now), digits(value, value, power))
}

/// Things a second: `0.30`, `4.2`, `1,204`.
pub fn frequency(per_second: f64) -> String {
    match finite(per_second) {
        0.0 => "0".into(),
        x if x < 0.995 => format!("{x:.2}"),
        x if x < 9.95 => format!("{x:.1}"),
        x => count(x.round() as u64),
    }
}

/// `00:01:30`; hours go on past 99.
pub fn clock(d: Duration) -> String {
    let s = d.as_secs();
    format!("{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
}

/// Two units at most: `0.4 s`, `9 s`, `1 min 30 s`, `2 h 05 min`, `3 d 4 h`.
pub fn duration(d: Duration) -> String {
    let s = (d + Duration::from_millis(500)).as_secs();
    match s {
        _ if d < Duration::from_millis(9_950) && !d.is_zero() => format!("{:.1} s", d.as_secs_f64()),
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min {:02} s", s / 60, s % 60),
        3600..86_400 => format!("{} h {:02} min", s / 3600, s / 60 % 60),
        _ => format!("{} d {} h", s / 86_400, s / 3600 % 24),
    }
}

/// Whole seconds below a minute: for what changes while it is read.
pub fn roughly(d: Duration) -> String {
    if d < Duration::from_secs(10) { format!("{} s", d.as_secs_f64().ceil() as u64) } else { duration(d) }
}

/// Seconds to the millisecond: `12.345`.
pub fn seconds(d: Duration) -> String {
    format!("{:.3}", d.as_secs_f64())
}

/// Whole percent of `part` in `whole`, rounded down so that 100 means all; 100 at most.
pub fn percent(part: u64, whole: u64) -> u64 {
    if whole == 0 { 100 } else { (u128::from(part) * 100 / u128::from(whole)).min(100) as u64 }
}

/// Columns that a character takes on a terminal: East Asian wide ones and pictographs two, marks that
/// combine with the one before none. Too wide a guess costs a column, too narrow a one a broken screen.
fn columns_of(c: char) -> usize {
    match c as u32 {
        0x300..=0x36f | 0x200b..=0x200f | 0x20d0..=0x20ff | 0xfe00..=0xfe0f | 0xfe20..=0xfe2f => 0,
        0x1100..=0x115f
        | 0x231a..=0x231b
        | 0x23e9..=0x23f3
        | 0x25fd..=0x25fe
        | 0x2600..=0x27bf
        | 0x2b00..=0x2bff
        | 0x2e80..=0x303e
        | 0x3041..=0xa4cf
        | 0xa960..=0xa97f
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x16fe0..=0x18cff
        | 0x1b000..=0x1b2ff
        | 0x1f000..=0x1faff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// Columns that a text takes on a terminal.
pub fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// The beginning of a text, at most `width` columns.
pub fn clip(text: &str, width: usize) -> &str {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += columns_of(c);
        if used > width {
            return &text[..at];
        }
    }
    text
}

/// The end of a text, at most `width` columns.
fn clip_start(text: &str, width: usize) -> &str {
    let mut used = 0;
    for (at, c) in text.char_indices().rev() {
        used += columns_of(c);
        if used > width {
            return &text[at + c.len_utf8()..];
        }
    }
    text
}

/// Shortened in the middle to at most `width` columns; the end, where the file's own name is, keeps
/// two thirds of the room.
pub fn middle(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_string();
    }
    if width < 8 {
        return clip_start(text, width).to_string();
    }
    let head = (width - 3) / 3;
    format!("{}...{}", clip(text, head), clip_start(text, width - 3 - head))
}

/// As many of `parts`, in order, as fit into `width` columns with `gap` between them; a part that does
/// not fit is left out and a shorter one after it may still come.
pub fn join(parts: &[String], gap: &str, width: usize) -> String {
    let mut line = String::new();
    let mut used = 0;
    for part in parts.iter().filter(|p| !p.is_empty()) {
        let needed = columns(part) + if line.is_empty() { 0 } else { columns(gap) };
        if used + needed <= width {
            if !line.is_empty() {
                line.push_str(gap);
            }
            line.push_str(part);
            used += needed;
        }
    }
    line
}

/// Broken between words into lines of at most `width` columns, those after the first behind `indent` spaces;
/// a word that is longer stays whole.
pub fn fold(text: &str, width: usize, indent: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut line, mut used) = (String::new(), 0);
    for (n, word) in text.split(' ').enumerate() {
        let needed = columns(word);
        let gap = usize::from(n > 0);
        if used + gap + needed > width && !line.trim_start().is_empty() {
            line.truncate(line.trim_end().len());
            lines.push(std::mem::replace(&mut line, " ".repeat(indent) + word));
            used = indent + needed;
        } else {
            line.push_str(&" "[..gap]);
            line.push_str(word);
            used += gap + needed;
        }
    }
    lines.push(line);
    lines
}

/// An argument of a command line as a POSIX shell takes it; `$'...'`, which bash, ksh and zsh know, where
/// bytes must not reach a terminal as they are.
pub fn quoted(argument: &[u8]) -> String {
    let harmless = |b: &u8| b.is_ascii_alphanumeric() || b"-_./:=,@+%".contains(b);
    match std::str::from_utf8(argument) {
        Ok(text) if !text.is_empty() && argument.iter().all(harmless) => text.to_string(),
        Ok(text) if show(argument).replace("\\\\", "\\") == text => format!("'{}'", text.replace('\'', "'\\''")),
        _ => format!("$'{}'", argument.iter().map(|b| escaped(*b)).collect::<String>()),
    }
}

fn escaped(byte: u8) -> String {
    match byte {
        b'\'' | b'\\' => format!("\\{}", char::from(byte)),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    }
}

/// Whether the locale of the environment writes UTF-8: the first of LC_ALL, LC_CTYPE and LANG that is set decides.
pub fn utf8_locale(variable: impl Fn(&str) -> Option<String>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| variable(name).filter(|v| !v.is_empty()));
    locale.is_some_and(|l| l.to_ascii_lowercase().replace('-', "").contains("utf8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_three_digits_in_powers_of_1024() {
        let table: [(u64, &str); 12] = [
            (0, "0 B"),
            (1023, "1,023 B"),
            (1024, "1.00 KiB"),
            (10_234, "9.99 KiB"),
            (10_239, "10.0 KiB"),
            (102_348, "99.9 KiB"),
            (102_399, "100 KiB"),
            (1_048_000, "1,023 KiB"),
            (1_048_575, "1.00 MiB"),
            (4_348_654_387, "4.05 GiB"),
            (1 << 60, "1.00 EiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (n, shown) in table {
            assert_eq!(bytes(n), shown);
        }
        assert_eq!(bytes_of(1_288_490_189, 4_348_654_387, " of "), "1.20 of 4.05 GiB");
        assert_eq!(bytes_of(1, 4_348_654_387, " of "), "0.00 of 4.05 GiB");
        assert_eq!(bytes_of(0, 0, " of "), "0 of 0 B");
    }

    #[test]
    fn rates_share_a_unit_where_they_can() {
        let mib = 1048576.0;
        assert_eq!(rates(310.0 * mib, 290.0 * mib), "310 MiB/s now, 290 mean");
        assert_eq!(rates(0.0, 290.0 * mib), "0 B/s now, 290 MiB/s mean");
        assert_eq!(
            (bit_rate(325e6).as_str(), bit_rate(1e6).as_str(), bit_rate(12.5e9).as_str()),
            ("2.60 Gbit/s", "0.008 Gbit/s", "100.0 Gbit/s")
        );
        assert_eq!((bit_rate(1e3).as_str(), bit_rate(f64::NAN).as_str()), ("0.000008 Gbit/s", "0.000000 Gbit/s"));
        assert_eq!(rates(f64::NAN, f64::INFINITY), "0 B/s now, 0 mean");
        assert_eq!((frequency(0.25).as_str(), frequency(4.24).as_str(), frequency(1204.4).as_str()), ("0.25", "4.2", "1,204"));
    }

    #[test]
    fn durations_have_two_units_at_most() {
        let table = [
            (0, "0 s"),
            (400, "0.4 s"),
            (9_940, "9.9 s"),
            (9_960, "10 s"),
            (59_400, "59 s"),
            (59_600, "1 min 00 s"),
            (90_000, "1 min 30 s"),
            (7_500_000, "2 h 05 min"),
            (273_600_000, "3 d 4 h"),
        ];
        for (ms, shown) in table {
            assert_eq!(duration(Duration::from_millis(ms)), shown);
        }
        assert_eq!(clock(Duration::from_secs(90)), "00:01:30");
        assert_eq!(clock(Duration::from_secs(360_000)), "100:00:00");
        assert_eq!(roughly(Duration::from_millis(8_200)), "9 s");
    }

    #[test]
    fn counts_and_plurals() {
        assert_eq!((count(0).as_str(), count(999).as_str(), count(1_000).as_str()), ("0", "999", "1,000"));
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(
            (things(1, "directory"), things(2, "directory"), things(0, "file")),
            ("1 directory".into(), "2 directories".into(), "0 files".into())
        );
        assert_eq!((percent(999, 1000), percent(5, 0), percent(u64::MAX, 1)), (99, 100, 100));
    }

    #[test]
    fn shortened_text_never_takes_more_columns_than_it_may() {
        let texts = [
            "",
            "a",
            "run7/out/wrfout_d01_2024-01-01_00:00:00",
            "\u{6771}\u{4eac}/\u{90fd}\u{5e81}/a.nc",
            "e\u{301}e\u{301}e\u{301}e\u{301}e\u{301}e\u{301}e\u{301}e\u{301}e\u{301}",
        ];
        for text in texts {
            for width in 0..45 {
                assert!(columns(&middle(text, width)) <= width, "{text:?} in {width}");
                assert!(columns(clip(text, width)) <= width);
            }
        }
        assert_eq!(middle("run7/out/wrfout_d01_2024-01-01", 20), "run7/...1_2024-01-01");
        assert_eq!(join(&["aaa".into(), String::new(), "bbbbbb".into(), "c".into()], "  ", 8), "aaa  c");
    }

    #[test]
    fn text_is_broken_between_words_only() {
        assert_eq!(fold("Time:        walking 1 s, reading 2 s", 25, 13), ["Time:        walking 1 s,", "             reading 2 s"]);
        assert_eq!(fold("copies /a/very/long/path to b", 10, 2), ["copies", "  /a/very/long/path", "  to b"]);
        assert_eq!(fold("  30  nothing moved", 15, 6), ["  30  nothing", "      moved"]);
        assert_eq!(fold("short", 80, 2), ["short"]);
        assert_eq!(fold("", 80, 2), [""]);
    }

    #[test]
    fn the_first_variable_that_is_set_names_the_locale() {
        let env = |pairs: &'static [(&str, &str)]| move |name: &str| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string());
        assert!(utf8_locale(env(&[("LANG", "en_US.UTF-8")])));
        assert!(utf8_locale(env(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8"), ("LANG", "C")])));
        assert!(!utf8_locale(env(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")])));
        assert!(!utf8_locale(env(&[])));
    }
}
