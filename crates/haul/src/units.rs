//! Sizes, rates, durations, moments and modes as people write them, and as they are shown to people.
//!
//! A number without a unit is an error, so that nobody waits for 400 bytes a second; the exceptions are rsync's
//! `--bwlimit` (KiB/s), a count, and 0. Parsers return the reason and a next step in words and never look at a clock.

use std::time::Duration;

use haul_core::entry::Time;
use haul_core::job::{ClassCopy, ModeChange};
use haul_core::spec::MaxDelete;
pub use haul_core::units::{bytes, count, duration, files, rate};
use jiff::civil;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// Bytes in `400M`, `1.5G`, `64KiB`, `10MB`, `512B`: as in rsync, K M G T P and KiB MiB ... count 1024, KB MB ... count 1000.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = split_number(text)?;
    if unit.is_empty() && !number.is_zero() {
        return Err(format!("the number has no unit; write {text}M for MiB, {text}MB for millions of bytes, {text}B for bytes"));
    }
    number.times(size_unit(unit)?).ok_or_else(|| "the size is too large".to_string())
}

/// Bytes a second in `400M`, `1.5G/s`, `100MB/s`, `10Gbit`; without a unit KiB, as in rsync. 0 is no limit: `None`.
pub fn parse_rate(text: &str) -> Result<Rate, String> {
    let (number, unit) = split_number(text)?;
    let unit = unit.strip_suffix("/s").or_else(|| unit.strip_suffix("ps")).unwrap_or(unit);
    let too_large = || "the rate is too large".to_string();
    let rate = match unit.to_ascii_lowercase().strip_suffix("bit") {
        Some(prefix) => number.times(decimal_prefix(prefix)?).ok_or_else(too_large)? / 8,
        None if unit.is_empty() => number.times(1024).ok_or_else(too_large)?,
        None => number.times(size_unit(unit)?).ok_or_else(too_large)?,
    };
    if rate == 0 && !number.is_zero() {
        return Err("the rate is below one byte a second".into());
    }
    Ok(Rate(if rate == 0 { None } else { Some(rate) }))
}

/// Bytes a second; `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(pub Option<u64>);

/// A decimal number as digits: `1.5` is 15 tenths.
struct Number {
    digits: u64,
    places: u32,
}

impl Number {
    fn is_zero(&self) -> bool {
        self.digits == 0
    }

    /// Times a unit, rounded down; `None` past `u64`.
    fn times(&self, unit: u64) -> Option<u64> {
        let whole = u128::from(self.digits) * u128::from(unit) / 10u128.pow(self.places);
        u64::try_from(whole).ok()
    }
}

/// Splits `1.5GiB` into the number and the rest.
fn split_number(text: &str) -> Result<(Number, &str), String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && part.is_empty() || part.contains('.') {
        return Err("this is no number followed by a unit".into());
    }
    if whole.len() + part.len() > 18 {
        return Err("the number has too many digits".into());
    }
    let digits = format!("{whole}{part}").parse::<u64>().map_err(|e| e.to_string())?;
    Ok((Number { digits, places: u32::try_from(part.len()).unwrap_or(0) }, rest.trim_start()))
}

fn size_unit(unit: &str) -> Result<u64, String> {
    if unit.len() == 2 && unit.ends_with('b') && unit.starts_with(|c: char| c.is_ascii_uppercase()) {
        return Err(format!("{unit} could be bits or bytes; write {}B for bytes, or {}bit in a rate", &unit[..1], &unit[..1]));
    }
    let unit = unit.to_ascii_lowercase();
    let (prefix, base) = match unit.as_str() {
        "" | "b" => return Ok(1),
        u if u.ends_with("ib") => (&u[..u.len() - 2], 1024u64),
        u if u.ends_with('b') => (&u[..u.len() - 1], 1000),
        u => (u, 1024),
    };
    power(prefix)
        .map(|n| base.pow(n))
        .ok_or_else(|| format!("'{unit}' is no unit of size; there are B, K, M, G, T, P (1024), KB ... (1000), KiB ... (1024)"))
}

fn decimal_prefix(prefix: &str) -> Result<u64, String> {
    if prefix.is_empty() { Ok(1) } else { power(prefix).map(|n| 1000u64.pow(n)).ok_or_else(|| format!("'{prefix}bit' is no unit of rate")) }
}

fn power(prefix: &str) -> Option<u32> {
    ["k", "m", "g", "t", "p"].iter().position(|p| *p == prefix).and_then(|at| u32::try_from(at + 1).ok())
}

/// `90s`, `6h`, `1d2h`, `1.5h`, `250ms`, `2w`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    if text.contains(':') {
        return Err("a duration is written with units, like 6h30m".into());
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    loop {
        let (number, after) = split_number(rest)?;
        let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        let millis = match unit {
            "" if number.is_zero() => 0,
            "" => return Err(format!("the number has no unit; write {rest}s for seconds, {rest}m for minutes, {rest}h for hours")),
            "ms" => 1,
            "s" | "sec" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            other => return Err(format!("'{other}' is no unit of time; there are ms, s, m, h, d, w")),
        };
        let more = number.times(millis).map(Duration::from_millis);
        total = more.and_then(|more| total.checked_add(more)).filter(|t| t.as_secs() < 1 << 40).ok_or("the duration is too long")?;
        if next.is_empty() {
            return Ok(total);
        }
        rest = next;
    }
}

/// `--progress=SECS`: plain seconds, or a duration with units. At least one second.
pub fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds.min(1 << 32)),
        Err(_) => parse_duration(text)?,
    };
    if interval < Duration::from_secs(1) { Err("at least one second".into()) } else { Ok(interval) }
}

/// A moment as written: how it becomes a time depends on now and on the time zone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// `7d`: that long before now, or after it for a deadline.
    Span(Duration),
    /// `2026-01-31`, `2026-01-31T08:00`: local time.
    Local(civil::DateTime),
    /// `2026-01-31T08:00Z`, `2026-01-31T08:00+01:00`.
    Instant(Timestamp),
    /// `08:00`: the last such time of day, or the next for a deadline.
    Clock(civil::Time),
}

/// A duration, a date, a date with time, or a time of day.
pub fn parse_when(text: &str) -> Result<When, String> {
    let words = "write a duration like 7d or 6h30m, a date like 2026-01-31, a time like 2026-01-31T08:00, or 08:00";
    if let Ok(clock) = text.parse::<civil::Time>().or_else(|_| format!("{text}:00").parse())
        && text.contains(':')
        && !text.contains('-')
    {
        return Ok(When::Clock(clock));
    }
    if text.len() >= 10 && text.as_bytes()[4] == b'-' {
        if let Ok(instant) = text.parse::<Timestamp>() {
            return Ok(When::Instant(instant));
        }
        return text.parse::<civil::DateTime>().map(When::Local).map_err(|_| format!("this is no date; {words}"));
    }
    parse_duration(text).map(When::Span).map_err(|reason| if text.contains([':', '-']) { words.to_string() } else { reason })
}

impl When {
    /// For `--newer-than` and `--older-than`: a span counts back from now, a time of day is the last one.
    pub fn past(self, now: Timestamp, zone: &TimeZone) -> Result<Time, String> {
        let at = match self {
            When::Span(ago) => now.checked_sub(ago).map_err(|_| "that is too long ago".to_string())?,
            When::Clock(clock) => {
                let today = clock_on(now, zone, clock, 0)?;
                if today <= now { today } else { clock_on(now, zone, clock, -1)? }
            }
            When::Local(at) => local(at, zone)?,
            When::Instant(at) => at,
        };
        let nanos = at.as_nanosecond();
        let secs = i64::try_from(nanos.div_euclid(1_000_000_000)).map_err(|_| "that time is out of range".to_string())?;
        Ok(Time { secs, nanos: u32::try_from(nanos.rem_euclid(1_000_000_000)).unwrap_or(0) })
    }

    /// For `--deadline`: how long from now. A moment that has passed is an error.
    pub fn ahead(self, now: Timestamp, zone: &TimeZone) -> Result<Duration, String> {
        let at = match self {
            When::Span(span) => return Ok(span),
            When::Clock(clock) => {
                let today = clock_on(now, zone, clock, 0)?;
                if today > now { today } else { clock_on(now, zone, clock, 1)? }
            }
            When::Local(at) => local(at, zone)?,
            When::Instant(at) => at,
        };
        let ahead = at.duration_since(now);
        Duration::try_from(ahead).map_err(|_| "that time has passed".to_string())
    }
}

fn local(at: civil::DateTime, zone: &TimeZone) -> Result<Timestamp, String> {
    at.to_zoned(zone.clone()).map(|z| z.timestamp()).map_err(|e| e.to_string())
}

fn clock_on(now: Timestamp, zone: &TimeZone, clock: civil::Time, days: i64) -> Result<Timestamp, String> {
    let date = Zoned::new(now, zone.clone()).date();
    let date = date.checked_add(jiff::Span::new().days(days)).map_err(|e| e.to_string())?;
    local(date.to_datetime(clock), zone)
}

/// `--deadline`: a moment, or none at all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Deadline {
    At(When),
    None,
}

impl Deadline {
    /// How long from now; `None` without a deadline.
    pub fn ahead(self, now: Timestamp, zone: &TimeZone) -> Result<Option<Duration>, String> {
        match self {
            Deadline::At(when) => when.ahead(now, zone).map(Some),
            Deadline::None => Ok(None),
        }
    }
}

/// What `parse_when` takes, or `none`.
pub fn parse_deadline(text: &str) -> Result<Deadline, String> {
    if text == "none" { Ok(Deadline::None) } else { parse_when(text).map(Deadline::At) }
}

/// `--max-delete`: a count, or a percentage of what the destination holds.
pub fn parse_max_delete(text: &str) -> Result<MaxDelete, String> {
    match text.strip_suffix('%') {
        Some(percent) => match percent.parse::<u32>() {
            Ok(n) if n <= 100 => Ok(MaxDelete::Percent(n)),
            _ => Err("a percentage is a whole number from 0% to 100%".into()),
        },
        None => text.parse().map(MaxDelete::Count).map_err(|_| "write a count like 100, or a percentage like 10%".into()),
    }
}

/// `--max-size` and `--min-size`, as in rsync: a number alone counts bytes, and `-1` or `+1` at the end is one byte less or more.
pub fn parse_size_limit(text: &str) -> Result<u64, String> {
    let (size, change) = match (text.strip_suffix("-1"), text.strip_suffix("+1")) {
        (Some(size), _) => (size, -1),
        (_, Some(size)) => (size, 1),
        _ => (text, 0),
    };
    let size = match size.parse::<u64>() {
        Ok(size) => size,
        Err(_) => parse_size(size)?,
    };
    size.checked_add_signed(change).ok_or_else(|| "the size is out of range".to_string())
}

/// The same as rsync reads it: a class that takes the permissions of another (`u=g`) loses its special bit.
pub fn parse_rsync_chmod(text: &str, umask: u32) -> Result<Vec<ModeChange>, String> {
    let mut changes = parse_chmod(text, umask)?;
    for change in &mut changes {
        let Some(copy) = change.copy.filter(|_| change.keep != MODE_BITS) else { continue };
        let special = [(0o100, 0o4000), (0o010, 0o2000), (0o001, 0o1000)].into_iter().filter(|(bit, _)| copy.to & bit != 0);
        change.keep &= special.fold(MODE_BITS, |kept, (_, special)| kept & !special);
    }
    Ok(changes)
}

/// Clauses of chmod(1) and of rsync's `--chmod` between commas, each octal (`D755`, `F644`) or symbolic (`u+w`, `go=rX`, `Dg+s`).
///
/// `D` and `F` restrict a clause to directories or to everything else. Where no `u`, `g`, `o` or `a` is
/// named, `umask` takes bits away, as in chmod(1).
pub fn parse_chmod(text: &str, umask: u32) -> Result<Vec<ModeChange>, String> {
    let mut changes = Vec::new();
    for clause in text.split(',') {
        let reject = |why| format!("'{clause}': {why}");
        // `u+w-x` is `u+w` and then `u-x`.
        let operators: Vec<usize> = clause.match_indices(['+', '-', '=']).map(|(at, _)| at).collect();
        match &operators[..] {
            [first, _, ..] => {
                for (nth, at) in operators.iter().enumerate() {
                    let end = operators.get(nth + 1).copied().unwrap_or(clause.len());
                    let one = [&clause[..*first], &clause[*at..end]].concat();
                    changes.push(parse_mode_clause(&one, umask).map_err(reject)?);
                }
            }
            _ => changes.push(parse_mode_clause(clause, umask).map_err(reject)?),
        }
    }
    Ok(changes)
}

const MODE_BITS: u32 = 0o7777;

fn parse_mode_clause(clause: &str, umask: u32) -> Result<ModeChange, String> {
    let (files, dirs, rest) = match clause.as_bytes().first() {
        Some(b'D') => (false, true, &clause[1..]),
        Some(b'F') => (true, false, &clause[1..]),
        _ => (true, true, clause),
    };
    let whole = |keep, add, add_if_exec| ModeChange { files, dirs, keep, add, add_if_exec, copy: None };
    if rest.starts_with(|c: char| c.is_ascii_digit()) {
        return match u32::from_str_radix(rest, 8) {
            Ok(mode) if mode <= MODE_BITS && rest.len() <= 5 => Ok(whole(0, mode, 0)),
            _ => Err("an octal mode has at most four digits from 0 to 7".into()),
        };
    }
    let at = rest.find(['+', '-', '=']).ok_or("write a mode like 644, u+w or go=rX")?;
    let (who, what) = (&rest[..at], &rest[at + 1..]);
    // One bit for each class, at its execute place, and the setuid and setgid bits that `s` means for it.
    let (mut class, mut set_id) = (0u32, 0u32);
    for letter in who.chars() {
        let (bits, id) = match letter {
            'u' => (0o100, 0o4000),
            'g' => (0o010, 0o2000),
            'o' => (0o001, 0),
            'a' => (0o111, 0o6000),
            other => return Err(format!("'{other}' is none of u, g, o, a")),
        };
        class |= bits;
        set_id |= id;
    }
    let mask = if who.is_empty() { MODE_BITS & !umask } else { MODE_BITS };
    if who.is_empty() {
        (class, set_id) = (0o111, 0o4000);
    }
    let operator = &rest[at..=at];
    if let Some(from) = [("u", 6), ("g", 3), ("o", 0)].into_iter().find_map(|(word, shift)| (what == word).then_some(shift)) {
        let copy = ClassCopy { from, to: class, mask, take: operator == "-" };
        let keep = if operator == "=" { MODE_BITS & !(class * 7) } else { MODE_BITS };
        return Ok(ModeChange { copy: Some(copy), ..whole(keep, 0, 0) });
    }
    let (mut bits, mut exec_bits, mut top) = (0u32, 0u32, 0u32);
    for letter in what.chars() {
        match letter {
            'r' => bits |= class * 4,
            'w' => bits |= class * 2,
            'x' => bits |= class,
            'X' => exec_bits |= class,
            's' if set_id == 0 => return Err("s is for u and g".into()),
            's' => top |= set_id,
            't' => top |= 0o1000,
            other => return Err(format!("'{other}' is none of r, w, x, X, s, t")),
        }
    }
    let (bits, exec_bits) = (bits & mask, exec_bits & mask);
    Ok(match operator {
        "+" => whole(MODE_BITS, bits | top, exec_bits),
        "-" => whole(MODE_BITS & !(bits | exec_bits | top), 0, 0),
        _ => whole(MODE_BITS & !(class * 7) & !(if top == 0 { 0 } else { set_id | top & 0o1000 }), bits | top, exec_bits),
    })
}

#[cfg(test)]
mod tests;
