//! Numbers with their units, for people: three digits.

use std::time::Duration;

use haul_core::units::{count, duration};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    Bytes,
    /// Bytes a second.
    Rate,
    /// So many of these a second: `files`.
    PerSecond(&'static str),
    /// So many of these.
    Count(&'static str),
}

type Step = (f64, &'static str);

const TIMES: [Step; 4] = [(1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s")];
const BINARY: [Step; 7] = [
    (1.0, "B"),
    (1024.0, "KiB"),
    (1_048_576.0, "MiB"),
    (1_073_741_824.0, "GiB"),
    (1_099_511_627_776.0, "TiB"),
    (1_125_899_906_842_624.0, "PiB"),
    (1_152_921_504_606_846_976.0, "EiB"),
];
/// From here on digits would fill the line.
const HUGE: f64 = 1e15;

impl Unit {
    /// `12.3 s`, `47.1 MiB/s`, `4 KiB`, `1,973 files/s`; `-` for what is no number.
    pub fn show(self, value: f64) -> String {
        match self {
            _ if !value.is_finite() => "-".into(),
            Unit::Seconds if value >= 600.0 => duration(Duration::try_from_secs_f64(value).unwrap_or(Duration::MAX)),
            Unit::PerSecond(what) => format!("{} {what}/s", digits(value)),
            Unit::Count(what) => format!("{} {}", grouped(value, 0), if value == 1.0 { what.trim_end_matches('s') } else { what }),
            Unit::Seconds | Unit::Bytes | Unit::Rate => {
                let (by, name) = self.step(value);
                format!("{} {name}", digits(value / by))
            }
        }
    }

    /// By what the numbers of an axis from 0 to `most` are divided, and the name of that.
    pub fn of_axis(self, most: f64) -> (f64, String) {
        match self {
            Unit::Seconds if most >= 14_400.0 => (3600.0, "hours".into()),
            Unit::Seconds if most >= 600.0 => (60.0, "minutes".into()),
            Unit::PerSecond(what) if most >= 5e6 => (1e6, format!("millions of {what}/s")),
            Unit::PerSecond(what) if most >= 5e4 => (1e3, format!("thousands of {what}/s")),
            Unit::PerSecond(what) => (1.0, format!("{what}/s")),
            Unit::Count(_) => (1.0, "number".into()),
            Unit::Seconds | Unit::Bytes | Unit::Rate => self.step(most),
        }
    }

    /// At a tick of a logarithmic axis: `200 ms`; counts have no unit.
    pub fn tick(self, value: f64) -> String {
        match self {
            Unit::PerSecond(_) | Unit::Count(_) => digits(value),
            _ => self.show(value),
        }
    }

    /// The unit that leaves a number from one on, and its name.
    fn step(self, value: f64) -> (f64, String) {
        let steps = if self == Unit::Seconds { &TIMES[..] } else { &BINARY };
        // Zero has the unit of one.
        let value = if value == 0.0 { 1.0 } else { value.abs() };
        let (by, name) = steps.iter().rev().find(|(by, _)| value >= by * 0.9995).unwrap_or(&steps[0]);
        (*by, format!("{name}{}", if self == Unit::Rate { "/s" } else { "" }))
    }
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
    let (whole, rest) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    format!("{}{}{rest}", if value < 0.0 { "-" } else { "" }, count(whole.parse().unwrap_or(u64::MAX)))
}

/// `0.58`, `1.80`, `23.4`, `1,200`: two places where they say something.
pub fn quotient(ratio: f64) -> String {
    match ratio.abs() {
        0.0..0.01 => digits(ratio),
        0.01..10.0 => grouped(ratio, 2),
        10.0..100.0 => grouped(ratio, 1),
        _ => grouped(ratio, 0),
    }
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
        assert_eq!((Unit::Bytes.show(4096.0), Unit::Rate.show(47_000_000.0)), ("4 KiB".into(), "44.8 MiB/s".into()));
        assert_eq!((digits(1_234_567.0), digits(0.012_345)), ("1,234,567".into(), "0.0123".into()));
    }
}
