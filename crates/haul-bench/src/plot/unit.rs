//! Numbers with their units, for people: three digits.

use std::time::Duration;

use haul_core::units::{count, duration};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    Bytes,
    /// Bytes a second.
    Rate,
    /// Bytes a second, of a network: in sentences also in Gbit/s.
    Network,
    /// So many of these a second: `files`.
    PerSecond(&'static str),
    /// So many of these.
    Count(&'static str),
    Percent,
    /// Names, not numbers.
    Name,
}

const SMALL: [(f64, &str); 4] = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")];
/// From here on digits would fill the line.
const HUGE: f64 = 1e15;
const BINARY: [(f64, &str); 7] = [
    (1.0, "B"),
    (1024.0, "KiB"),
    (1_048_576.0, "MiB"),
    (1_073_741_824.0, "GiB"),
    (1_099_511_627_776.0, "TiB"),
    (1_125_899_906_842_624.0, "PiB"),
    (1_152_921_504_606_846_976.0, "EiB"),
];

impl Unit {
    /// `12.3 s`, `47.1 MiB/s`, `4 KiB`, `1,973 files/s`; `-` for what is no number.
    pub fn show(self, value: f64) -> String {
        if !value.is_finite() {
            return "-".into();
        }
        match self {
            Unit::Seconds if value >= 600.0 => duration(Duration::try_from_secs_f64(value).unwrap_or(Duration::MAX)),
            Unit::Seconds => {
                let (by, name) = small(value);
                format!("{} {name}", digits(value / by))
            }
            Unit::Bytes => bytes(value),
            Unit::Rate => format!("{}/s", bytes(value)),
            Unit::Network => format!("{}/s, {} Gbit/s", bytes(value), digits(value * 8.0 / 1e9)),
            Unit::PerSecond(what) => format!("{} {what}/s", digits(value)),
            Unit::Count(what) => format!("{} {}", grouped(value, 0), if value == 1.0 { what.trim_end_matches('s') } else { what }),
            Unit::Percent => format!("{} %", digits(value)),
            Unit::Name => digits(value),
        }
    }

    /// By what the numbers of an axis from 0 to `most` are divided, and the name of that.
    pub fn of_axis(self, most: f64) -> (f64, String) {
        match self {
            Unit::Seconds if most >= 14_400.0 => (3600.0, "hours".into()),
            Unit::Seconds if most >= 600.0 => (60.0, "minutes".into()),
            Unit::Seconds => {
                let (by, name) = small(most);
                (by, name.into())
            }
            Unit::Bytes => {
                let (by, name) = largest(&BINARY, most);
                (by, name.into())
            }
            Unit::Rate | Unit::Network => {
                let (by, name) = largest(&BINARY, most);
                (by, format!("{name}/s"))
            }
            Unit::PerSecond(what) if most >= 5e6 => (1e6, format!("millions of {what}/s")),
            Unit::PerSecond(what) if most >= 5e4 => (1e3, format!("thousands of {what}/s")),
            Unit::PerSecond(what) => (1.0, format!("{what}/s")),
            Unit::Count(_) => (1.0, "number".into()),
            Unit::Percent => (1.0, "%".into()),
            Unit::Name => (1.0, String::new()),
        }
    }

    /// At a tick of a logarithmic axis: `200 ms`; counts have no unit.
    pub fn tick(self, value: f64) -> String {
        match self {
            Unit::Seconds => {
                let (by, name) = small(value);
                format!("{} {name}", digits(value / by))
            }
            Unit::PerSecond(_) | Unit::Count(_) | Unit::Name => digits(value),
            Unit::Network => Unit::Rate.show(value),
            Unit::Bytes | Unit::Rate | Unit::Percent => self.show(value),
        }
    }
}

fn small(value: f64) -> (f64, &'static str) {
    let value = value.abs();
    SMALL.into_iter().find(|(by, _)| value >= *by * 0.9995).unwrap_or(if value == 0.0 { SMALL[0] } else { SMALL[3] })
}

fn largest(steps: &[(f64, &'static str)], value: f64) -> (f64, &'static str) {
    steps.iter().rev().find(|(by, _)| value.abs() >= *by * 0.9995).copied().unwrap_or(steps[0])
}

fn bytes(value: f64) -> String {
    let (by, name) = largest(&BINARY, value);
    format!("{} {name}", digits(value / by))
}

/// Three digits that count, without trailing zeros behind a whole number: `0.0123`, `1.5`, `47`, `1,973`.
pub fn digits(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    if !(1e-6..HUGE).contains(&value.abs()) {
        return format!("{value:.2e}");
    }
    if value == value.trunc() {
        return grouped(value, 0);
    }
    let places = |value: f64| (2.0 - value.abs().log10().floor()).clamp(0.0, 12.0) as usize;
    // 0.9999 is 1.00, not 1.000.
    let step = 10f64.powi(places(value) as i32);
    let rounded = (value * step).round() / step;
    grouped(value, if rounded == 0.0 { places(value) } else { places(rounded) })
}

/// With that many places behind the point, and commas between thousands.
pub fn grouped(value: f64, places: usize) -> String {
    if value.abs() >= HUGE {
        return format!("{value:.2e}");
    }
    let plain = format!("{:.places$}", value.abs());
    let (whole, rest) = plain.split_once('.').map_or((plain.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let mut out = format!("{}{}", if value < 0.0 { "-" } else { "" }, count(whole.parse().unwrap_or(u64::MAX)));
    if let Some(rest) = rest {
        out.push('.');
        out.push_str(rest);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        for (value, shown) in [
            (0.0, "0 s"),
            (12.345, "12.3 s"),
            (0.999_9, "1.00 s"),
            (0.000_45, "450 µs"),
            (2e-9, "2 ns"),
            (725.0, "12m05s"),
            (3720.0, "1h02m"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(Unit::Seconds.show(value), shown);
        }
        assert_eq!(Unit::Bytes.show(4096.0), "4 KiB");
        assert_eq!(Unit::Network.show(47_000_000.0), "44.8 MiB/s, 0.376 Gbit/s");
        assert_eq!(digits(1_234_567.0), "1,234,567");
        assert_eq!(digits(0.012_345), "0.0123");
    }
}
