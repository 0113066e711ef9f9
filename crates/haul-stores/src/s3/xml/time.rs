//! Points in time as the service writes them: ISO 8601 in documents, HTTP dates in headers.

use haul_core::entry::Time;
use jiff::{Timestamp, civil, fmt::rfc2822, tz::TimeZone};

/// `2024-01-02T03:04:05Z` with up to nine decimals, and `Z`, `+hh:mm`, `-hh:mm` or nothing for the zone, which is UTC
/// then. `None` for what is no time.
pub fn iso(text: &str) -> Option<Time> {
    let text = text.trim_ascii();
    let time = text.parse::<Timestamp>().or_else(|_| TimeZone::UTC.to_timestamp(text.parse::<civil::DateTime>()?));
    time.ok().map(time_of)
}

/// `2024-01-02T03:04:05.678Z`: as many decimals as there are, no point without them. `None` outside of the years 0 to 9999.
pub fn iso_text(time: Time) -> Option<String> {
    let text = Timestamp::new(time.secs, i32::try_from(time.nanos).ok()?).ok()?.to_string();
    (!text.starts_with('-')).then_some(text)
}

/// `Wed, 21 Oct 2015 07:28:00 GMT`, as in `Last-Modified` and `Date`.
pub fn http(text: &str) -> Option<Time> {
    rfc2822::DateTimeParser::new().parse_timestamp(text.trim_ascii()).ok().map(time_of)
}

fn time_of(time: Timestamp) -> Time {
    let nanos = time.as_nanosecond();
    // Both are within what a timestamp can be.
    Time { secs: nanos.div_euclid(1_000_000_000) as i64, nanos: nanos.rem_euclid(1_000_000_000) as u32 }
}
