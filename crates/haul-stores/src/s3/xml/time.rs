//! Points in time as the service writes them: ISO 8601 in documents, HTTP dates in headers.

use haul_core::entry::Time;

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const DAY: i64 = 86_400;

/// `2024-01-02T03:04:05Z` with up to nine decimals (more are cut off) or none, and `Z`, `+hh:mm`, `-hh:mm` or
/// nothing for the zone. Years 0 to 9999. `None` for what is no time.
pub fn iso(text: &str) -> Option<Time> {
    let text = text.trim_ascii().as_bytes();
    let year = digits(text.get(0..4)?)?;
    let month = digits(text.get(5..7)?)?;
    let day = digits(text.get(8..10)?)?;
    let hour = digits(text.get(11..13)?)?;
    let minute = digits(text.get(14..16)?)?;
    let second = digits(text.get(17..19)?)?;
    let marks = [text[4], text[7], text[10], text[13], text[16]];
    if !matches!(marks, [b'-', b'-', b'T' | b't' | b' ', b':', b':']) {
        return None;
    }
    let mut rest = &text[19..];
    let mut nanos = 0;
    if let [b'.' | b',', decimals @ ..] = rest {
        let length = decimals.iter().take_while(|byte| byte.is_ascii_digit()).count();
        nanos = fraction(&decimals[..length])?;
        rest = &decimals[length..];
    }
    let zone = match rest {
        b"" | b"Z" | b"z" => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] | [sign @ (b'+' | b'-'), h1, h2, m1, m2] => {
            let (hours, minutes) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?);
            let seconds = hours * 3600 + minutes * 60;
            if *sign == b'-' { -seconds } else { seconds }
        }
        _ => return None,
    };
    let secs = seconds(year, month, day, hour, minute, second)? - zone;
    Some(Time { secs, nanos })
}

/// `2024-01-02T03:04:05.678Z`: as many decimals as there are, at most nine, no point without them. A time outside of
/// the years 0 to 9999 is `None`.
pub fn iso_text(time: Time) -> Option<String> {
    let (year, month, day) = civil(time.secs.div_euclid(DAY))?;
    let second = time.secs.rem_euclid(DAY);
    let mut text = format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
    text.push_str(&decimals(time.nanos));
    text.push('Z');
    Some(text)
}

/// `Wed, 21 Oct 2015 07:28:00 GMT`, as in `Last-Modified` and `Date`.
pub fn http(text: &str) -> Option<Time> {
    let (_, date) = text.trim_ascii().split_once(", ")?;
    let mut parts = date.split(' ');
    let day = digits(parts.next()?.as_bytes())?;
    let month = parts.next()?;
    let month = MONTHS.iter().zip(1..).find(|(name, _)| **name == month)?.1;
    let year = digits(parts.next()?.as_bytes())?;
    let [h1, h2, b':', m1, m2, b':', s1, s2] = *parts.next()?.as_bytes() else { return None };
    if !matches!(parts.next(), Some("GMT" | "UTC" | "+0000")) || parts.next().is_some() {
        return None;
    }
    let (hour, minute, second) = (digits(&[h1, h2])?, digits(&[m1, m2])?, digits(&[s1, s2])?);
    Some(Time { secs: seconds(year, month, day, hour, minute, second)?, nanos: 0 })
}

/// A time as `If-Modified-Since` and its kin want it; decimals are cut off. `None` outside of the years 0 to 9999.
pub fn http_text(time: Time) -> Option<String> {
    let days = time.secs.div_euclid(DAY);
    let (year, month, day) = civil(days)?;
    let second = time.secs.rem_euclid(DAY);
    let name = DAYS[usize::try_from(days.rem_euclid(7)).ok()?];
    let month = MONTHS[usize::try_from(month - 1).ok()?];
    Some(format!("{name}, {day:02} {month} {year:04} {:02}:{:02}:{:02} GMT", second / 3600, second / 60 % 60, second % 60))
}

/// `.678`, without zeros at the end; empty for none.
pub(in crate::s3) fn decimals(nanos: u32) -> String {
    if nanos == 0 {
        return String::new();
    }
    let text = format!(".{nanos:09}");
    text.trim_end_matches('0').to_owned()
}

/// Decimals of a second as nanoseconds. What is finer is cut off; `None` without any digit.
pub(in crate::s3) fn fraction(decimals: &[u8]) -> Option<u32> {
    if decimals.is_empty() || !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some((0..9).fold(0, |nanos, i| nanos * 10 + decimals.get(i).map_or(0, |digit| u32::from(digit - b'0'))))
}

/// At most four digits.
fn digits(text: &[u8]) -> Option<i64> {
    if text.is_empty() || text.len() > 4 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(text.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0')))
}

/// Seconds since 1970. A leap second counts as the one before it.
fn seconds(year: i64, month: i64, day: i64, hour: i64, minute: i64, second: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=last).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    Some(days(year, month, day) * DAY + hour * 3600 + minute * 60 + second.min(59))
}

/// Days from 1970-01-01 to a date: Howard Hinnant's `days_from_civil`, for which the year begins in March.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The reverse: year, month and day. `None` outside of the years 0 to 9999.
fn civil(days: i64) -> Option<(i64, i64, i64)> {
    let days = days.checked_add(719_468)?;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (0..=9999).contains(&year).then_some((year, month, day))
}
