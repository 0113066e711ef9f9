//! Sizes, rates, counts and durations as they are shown to people, everywhere in the same form.

use std::time::Duration;

pub const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// The power of 1024 in which `n` is read best; 1,023.6 of a unit is 1.00 of the next.
pub fn unit(n: f64) -> usize {
    let mut power = 0;
    let mut scaled = n;
    while power + 1 < UNITS.len() && scaled >= if power == 0 { 1024.0 } else { 1023.5 } {
        scaled /= 1024.0;
        power += 1;
    }
    power
}

/// Three significant digits at most, as many decimals as `like` would have.
pub fn digits(value: f64, like: f64, power: usize) -> String {
    match like {
        _ if power == 0 => count(value.round() as u64),
        x if x < 9.995 => format!("{value:.2}"),
        x if x < 99.95 => format!("{value:.1}"),
        _ => count(value.round() as u64),
    }
}

/// `4.05 GiB`: three significant digits, powers of 1024.
pub fn bytes(n: u64) -> String {
    real_bytes(n as f64)
}

/// Bytes a second: `310 MiB/s`.
pub fn rate(per_second: f64) -> String {
    format!("{}/s", real_bytes(finite(per_second)))
}

fn real_bytes(n: f64) -> String {
    let power = unit(n);
    let value = n / 1024f64.powi(power as i32);
    format!("{} {}", digits(value, value, power), UNITS[power])
}

/// 0 for what is no number or is negative.
pub fn finite(n: f64) -> f64 {
    if n.is_finite() { n.max(0.0) } else { 0.0 }
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
