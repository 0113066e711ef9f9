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

/// The same, to the second (RFC 9110, section 5.6.7). `None` outside of the years 0 to 9999.
pub fn http_text(time: Time) -> Option<String> {
    let time = Timestamp::new(time.secs, 0).ok()?;
    rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&time).ok()
}

fn time_of(time: Timestamp) -> Time {
    let nanos = time.as_nanosecond();
    // Both are within what a timestamp can be.
    Time { secs: nanos.div_euclid(1_000_000_000) as i64, nanos: nanos.rem_euclid(1_000_000_000) as u32 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        let at = |secs, nanos| Some(Time { secs, nanos });
        assert_eq!(iso("2024-01-02T03:04:05.678Z"), at(1_704_164_645, 678_000_000));
        assert_eq!(iso("2024-01-02T03:04:05"), at(1_704_164_645, 0));
        assert_eq!(iso("2024-01-02T04:34:05.123456789+01:30"), at(1_704_164_645, 123_456_789));
        assert_eq!(iso("1969-12-31T23:59:59.5Z"), at(-1, 500_000_000));
        assert_eq!(iso("2000-02-29T00:00:00Z"), at(951_782_400, 0));
        for wrong in [
            "",
            "2024",
            "2024-13-01T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "2024-01-01T24:00:00Z",
            "2024-01-01T00:00:00.Z",
            "2024-01-01T00:00:00+1",
            "-024-01-01T00:00:00Z",
            "2024-01-01T00:00:0\u{e9}",
        ] {
            assert_eq!(iso(wrong), None, "{wrong}");
        }
        assert_eq!(http("Wed, 21 Oct 2015 07:28:00 GMT"), at(1_445_412_480, 0));
        assert_eq!(http("Sun, 06 Nov 1994 08:49:37 GMT"), at(784_111_777, 0));
        assert_eq!(http("Sun, 06 Nov 1994 08:49:37 GMT").and_then(http_text).as_deref(), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
        for wrong in [
            "",
            "Wed, 21 Oct 2015 07:28:00",
            "Wed, 21 Okt 2015 07:28:00 GMT",
            "Wed, 32 Oct 2015 07:28:00 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
        ] {
            assert_eq!(http(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_time_is_written_and_read(secs in -62_167_219_200i64..253_402_207_200, nanos in 0..1_000_000_000u32) {
            let time = Time { secs, nanos };
            prop_assert_eq!(iso(&iso_text(time).unwrap()), Some(time));
        }
    }
}
