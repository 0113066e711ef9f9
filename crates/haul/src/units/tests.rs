use super::*;
use proptest::prelude::*;

#[test]
fn sizes_have_rsyncs_units() {
    for (text, expected) in [
        ("400M", 400 << 20),
        ("1.5G", 3 << 29),
        ("64KiB", 64 << 10),
        ("64k", 64 << 10),
        ("10MB", 10_000_000),
        ("10mb", 10_000_000),
        ("2TiB", 2 << 40),
        ("512B", 512),
        ("0", 0),
        (".5K", 512),
        ("1 GiB", 1 << 30),
    ] {
        assert_eq!(parse_size(text), Ok(expected), "{text}");
    }
    for text in ["400", "", "M", "1.5.2M", "4X", "4Gb", "-1M", "99999999P", "1e3M", "4M4", "4é"] {
        assert!(parse_size(text).is_err(), "{text}");
    }
    assert!(parse_size("400").unwrap_err().contains("400M"));
}

#[test]
fn rates_without_a_unit_are_kib() {
    assert_eq!(parse_rate("400M"), Ok(Rate(Some(400 << 20))));
    assert_eq!(parse_rate("400MB/s"), Ok(Rate(Some(400_000_000))));
    assert_eq!(parse_rate("100"), Ok(Rate(Some(102_400))));
    assert_eq!(parse_rate("1.5"), Ok(Rate(Some(1536))));
    assert_eq!(parse_rate("10Gbit/s"), Ok(Rate(Some(1_250_000_000))));
    assert_eq!(parse_rate("0"), Ok(Rate(None)));
    for text in ["10Gb", "fast", "1bit", "9999999Pbit"] {
        assert!(parse_rate(text).is_err(), "{text}");
    }
}

#[test]
fn durations_have_units() {
    for (text, seconds) in [
        ("90s", 90.0),
        ("6h", 21_600.0),
        ("1d2h", 93_600.0),
        ("1.5h", 5400.0),
        ("250ms", 0.25),
        ("6h30m", 23_400.0),
        ("0", 0.0),
        ("2w", 1_209_600.0),
    ] {
        assert_eq!(parse_duration(text).map(|d| d.as_secs_f64()), Ok(seconds), "{text}");
    }
    for text in ["90", "", "h", "6h30", "6:30", "1y", "999999999999999999w"] {
        assert!(parse_duration(text).is_err(), "{text}");
    }
    assert_eq!(parse_interval("60"), Ok(Duration::from_secs(60)));
    assert_eq!(parse_interval("2m"), Ok(Duration::from_secs(120)));
    assert!(parse_interval("0").is_err() && parse_interval("0.5s").is_err());
}

#[test]
fn moments_count_from_now() {
    let now: Timestamp = "2026-03-10T12:00:00Z".parse().expect("a time");
    let zone = TimeZone::fixed(jiff::tz::offset(1));
    let past = |text: &str| {
        parse_when(text).and_then(|w| w.past(now, &zone)).map(|t| Timestamp::from_second(t.secs).expect("in range").to_string())
    };
    assert_eq!(past("7d"), Ok("2026-03-03T12:00:00Z".into()));
    assert_eq!(past("2026-01-31"), Ok("2026-01-30T23:00:00Z".into()));
    assert_eq!(past("2026-01-31T08:00"), Ok("2026-01-31T07:00:00Z".into()));
    assert_eq!(past("2026-01-31T08:00:00Z"), Ok("2026-01-31T08:00:00Z".into()));
    assert_eq!(past("08:00"), Ok("2026-03-10T07:00:00Z".into()));
    assert_eq!(past("14:00"), Ok("2026-03-09T13:00:00Z".into()));
    let ahead = |text: &str| parse_when(text).and_then(|w| w.ahead(now, &zone)).map(|d| d.as_secs());
    assert_eq!(ahead("6h"), Ok(21_600));
    assert_eq!(ahead("14:00"), Ok(3600));
    assert_eq!(ahead("08:00"), Ok(19 * 3600));
    assert_eq!(ahead("2026-03-10T14:00"), Ok(3600));
    assert_eq!(ahead("2026-03-10"), Err("that time has passed".into()));
    for text in ["7", "yesterday", "2026-13-01", "2026-01", "25:00", "é2026-01-01", "2026é-01-01"] {
        assert!(parse_when(text).is_err(), "{text}");
    }
}

#[test]
fn modes_follow_rsync() {
    // (--chmod, mode before, directory?, mode after): as rsync 3.5.0 leaves them with umask 022.
    for (text, before, dir, after) in [
        ("D755,F644", 0o600, false, 0o644),
        ("D755,F644", 0o700, true, 0o755),
        ("u+w", 0o444, false, 0o644),
        ("go=rX", 0o600, false, 0o644),
        ("go=rX", 0o700, false, 0o755),
        ("go=rX", 0o700, true, 0o755),
        ("a+x", 0o644, false, 0o755),
        ("+w", 0o444, false, 0o644),
        ("go-rwx", 0o777, false, 0o700),
        ("Dg+s", 0o755, true, 0o2755),
        ("Dg+s", 0o755, false, 0o755),
        ("u=rwx,g=,o=", 0o777, false, 0o700),
        ("+t", 0o755, true, 0o1755),
        ("ug-X", 0o755, false, 0o645),
        ("a+s", 0o755, false, 0o6755),
        ("+s", 0o755, false, 0o4755),
        ("u=rws", 0o6755, false, 0o6655),
        ("=rw", 0o1777, false, 0o1644),
        ("Du=rwx,go=rx,Fu=rw,go=r", 0o6755, false, 0o6644),
        ("4755", 0o2644, true, 0o4755),
        // As chmod(1) has it, too.
        ("u+w+r", 0o000, false, 0o600),
        ("u=rw-w,g+x", 0o000, false, 0o410),
        ("g=u", 0o754, false, 0o774),
        ("go=u-w", 0o700, true, 0o755),
        ("o-g", 0o757, false, 0o752),
        ("o+u", 0o700, false, 0o707),
    ] {
        let changes = parse_chmod(text, 0o022).expect(text);
        assert_eq!(ModeChange::apply(&changes, before, dir), after, "{text} on {before:o}");
    }
    for text in ["", "888", "77777", "u", "u+z", "q+w", "644,", "DF755", "o+s", "g=ur"] {
        assert!(parse_chmod(text, 0o022).is_err(), "{text}");
    }
}

#[test]
fn deletes_are_bounded_by_count_or_percent() {
    assert_eq!(parse_max_delete("100"), Ok(MaxDelete::Count(100)));
    assert_eq!(parse_max_delete("10%"), Ok(MaxDelete::Percent(10)));
    assert!(parse_max_delete("101%").is_err() && parse_max_delete("-1").is_err() && parse_max_delete("%").is_err());
}

#[test]
fn figures_for_people() {
    assert_eq!(bytes(0), "0 B");
    assert_eq!(bytes(999), "999 B");
    assert_eq!(bytes(1000), "1,000 B");
    assert_eq!(bytes(5_626_000_000), "5.24 GiB");
    assert_eq!(bytes((1 << 20) - 1), "1.00 MiB");
    assert_eq!(bytes(u64::MAX), "16.0 EiB");
    assert_eq!(rate(104_857_600.0), "100 MiB/s");
    assert_eq!(count(0), "0");
    assert_eq!(count(999), "999");
    assert_eq!(count(37_760), "37,760");
    assert_eq!(count(1_000_000), "1,000,000");
    for (seconds, text) in [
        (0.344, "0.34 s"),
        (3.44, "3.4 s"),
        (9.99, "10 s"),
        (59.6, "1m00s"),
        (125.0, "2m05s"),
        (3720.0, "1h02m"),
        (86_400.0 * 3.2, "3d04h"),
    ] {
        assert_eq!(duration(Duration::from_secs_f64(seconds)), text);
    }
}

proptest! {
    #[test]
    fn parsers_never_panic(text in "\\PC{0,20}|[0-9.:TZkKMGiBbhdmsw%+-]{0,14}") {
        let _ = (parse_size(&text).is_ok(), parse_rate(&text).is_ok(), parse_duration(&text).is_ok(), parse_interval(&text).is_ok());
        let _ = (parse_when(&text).is_ok(), parse_max_delete(&text).is_ok(), parse_chmod(&text, 0o022).is_ok());
    }

    #[test]
    fn a_whole_size_is_exact(n in 0u64..1 << 20) {
        prop_assert_eq!(parse_size(&format!("{n}M")), Ok(n << 20));
    }
}
