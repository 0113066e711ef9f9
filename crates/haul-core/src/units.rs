//! Sizes, rates, counts and durations as they are shown to people, everywhere in the same form.

use std::time::Duration;

/// `5.24 GiB`: three digits and a binary unit.
pub fn bytes(n: u64) -> String {
    scaled(n as f64, "B", &["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"])
}

/// `1.21 GiB/s`.
pub fn rate(bytes_a_second: f64) -> String {
    format!("{}/s", scaled(bytes_a_second.max(0.0), "B", &["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]))
}

fn scaled(n: f64, smallest: &str, units: &[&str]) -> String {
    if !n.is_finite() || n < 999.5 {
        return format!("{n:.0} {smallest}");
    }
    let (mut value, mut unit) = (n, smallest);
    for next in units {
        // 1023.9 would be shown as 1024, which is one of the next unit.
        if value < 999.5 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    match value {
        v if v < 9.995 => format!("{v:.2} {unit}"),
        v if v < 99.95 => format!("{v:.1} {unit}"),
        v => format!("{v:.0} {unit}"),
    }
}

/// `37,760`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 file`, `37,760 files`.
pub fn files(n: u64) -> String {
    if n == 1 { "1 file".into() } else { format!("{} files", count(n)) }
}

/// `0.34 s`, `3.4 s`, `45 s`, `2m05s`, `1h02m`, `3d04h`.
pub fn duration(d: Duration) -> String {
    let seconds = d.as_secs_f64();
    let whole = seconds.round() as u64;
    match whole {
        _ if seconds < 0.995 => format!("{seconds:.2} s"),
        _ if seconds < 9.95 => format!("{seconds:.1} s"),
        0..60 => format!("{whole} s"),
        60..3600 => format!("{}m{:02}s", whole / 60, whole % 60),
        3600..86_400 => format!("{}h{:02}m", whole / 3600, whole % 3600 / 60),
        _ => format!("{}d{:02}h", whole / 86_400, whole % 86_400 / 3600),
    }
}
