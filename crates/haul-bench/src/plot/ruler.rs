//! The ticks of an axis, and the place of a number on it. Pure.

use super::unit::{digits, grouped};
use super::{Axis, Scale};

#[derive(Clone, Debug, PartialEq)]
pub struct Ruler {
    pub ticks: Vec<Tick>,
    pub title: String,
    scale: Scale,
    low: f64,
    high: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    pub at: f64,
    pub label: String,
}

/// How much room a label takes along the axis, in the unit of the axis' length.
pub type Room<'a> = &'a dyn Fn(&str) -> f64;

impl Ruler {
    /// For `values` on an axis of `length`, with labels that take `room`. Values that a logarithm has no place for are left out.
    pub fn of(axis: &Axis, values: &[f64], length: f64, room: Room<'_>) -> Ruler {
        let usable = |v: &f64| v.is_finite() && (*v > 0.0 || axis.scale == Scale::Linear);
        let mut values: Vec<f64> = values.iter().copied().filter(usable).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let (Some(least), Some(most)) = (values.first().copied(), values.last().copied()) else {
            return linear(axis, 1.0, length, room);
        };
        match axis.scale {
            Scale::Linear | Scale::Names => linear(axis, most, length, room),
            Scale::Log10 => log10(axis, least, most, length, room),
            Scale::Log2 => log2(axis, &values, length, room),
        }
    }

    /// From 0 at the axis' beginning to 1 at its end; `None` where the axis has no place for it.
    pub fn place(&self, value: f64) -> Option<f64> {
        let at = match self.scale {
            Scale::Linear | Scale::Names => (value - self.low) / (self.high - self.low),
            Scale::Log2 | Scale::Log10 if value > 0.0 => (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln()),
            Scale::Log2 | Scale::Log10 => return None,
        };
        at.is_finite().then(|| at.clamp(0.0, 1.0))
    }
}

fn title(name: &str, unit: &str) -> String {
    if unit.is_empty() { name.to_string() } else { format!("{name} ({unit})") }
}

/// 1, 2 or 5 times a power of ten, not below `value` > 0.
fn step_from(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|by| by * power).find(|step| *step >= value * 0.999_999).unwrap_or(10.0 * power)
}

fn linear(axis: &Axis, most: f64, length: f64, room: Room<'_>) -> Ruler {
    let most = if most > 0.0 { most } else { 1.0 };
    let (by, unit) = axis.unit.of_axis(most);
    let top = most / by;
    // Whole things have no halves.
    let least_step = if matches!(axis.unit, super::Unit::Count(_)) { 1.0 } else { 0.0 };
    let mut step = step_from(top / 10.0).max(least_step);
    loop {
        let places = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
        let count = (top / step - 1e-9).ceil().max(1.0) as usize;
        let ticks: Vec<Tick> = (0..=count).map(|i| Tick { at: i as f64 * step * by, label: grouped(i as f64 * step, places) }).collect();
        let high = count as f64 * step * by;
        let apart = length / count as f64;
        let widest = ticks.iter().map(|tick| room(&tick.label)).fold(0.0, f64::max);
        if widest <= apart || count <= 1 {
            return Ruler { ticks, title: title(&axis.name, &unit), scale: Scale::Linear, low: 0.0, high };
        }
        step = step_from(step * 1.5);
    }
}

fn log10(axis: &Axis, least: f64, most: f64, length: f64, room: Room<'_>) -> Ruler {
    // No measurement covers more than 18 decades; the bound keeps hostile input from taking for ever.
    let least = least.max(most * 1e-18);
    let decade = |value: f64| value.log10().floor() as i32;
    let all = |bys: &[f64]| -> Vec<f64> {
        (decade(least) - 1..=decade(most) + 1).flat_map(|d| bys.iter().map(move |by| by * 10f64.powi(d)).collect::<Vec<_>>()).collect()
    };
    let fine = all(&[1.0, 2.0, 5.0]);
    let low = fine.iter().copied().rfind(|t| *t <= least * 1.000_001).unwrap_or(least);
    let mut high = fine.iter().copied().find(|t| *t >= most * 0.999_999).unwrap_or(most);
    if high <= low {
        high = low * 10.0;
    }
    let within = |ticks: Vec<f64>| -> Vec<f64> { ticks.into_iter().filter(|t| *t >= low * 0.999_999 && *t <= high * 1.000_001).collect() };
    let chosen = with_room(within(all(&[1.0])).into_iter().chain(within(fine)), axis, (low, high), length, room);
    let chosen = if chosen.len() < 2 { vec![low, high] } else { chosen };
    logarithmic(axis, Scale::Log10, chosen, (low, high))
}

fn log2(axis: &Axis, values: &[f64], length: f64, room: Room<'_>) -> Ruler {
    let (mut low, mut high) = (values[0], values[values.len() - 1]);
    if high / low < 1.000_001 {
        (low, high) = (low / 2.0, high * 2.0);
    }
    // The ends first, then measured values; powers of two if there are few.
    let ends = [values[0], values[values.len() - 1]];
    let powers: Vec<f64> = (-40..70).map(|power| 2f64.powi(power)).filter(|p| *p > low && *p < high).collect();
    let measured = values.iter().filter(|v| v.log2().fract() == 0.0).chain(values);
    let few = values.len() < 3;
    let candidates = ends.iter().chain(measured).chain(powers.iter().filter(|_| few)).copied();
    let chosen = with_room(candidates, axis, (low, high), length, room);
    logarithmic(axis, Scale::Log2, chosen, (low, high))
}

/// The candidates that have room beside those before them.
fn with_room(candidates: impl Iterator<Item = f64>, axis: &Axis, (low, high): (f64, f64), length: f64, room: Room<'_>) -> Vec<f64> {
    let place = |value: f64| (value.ln() - low.ln()) / (high.ln() - low.ln()) * length;
    let mut chosen: Vec<f64> = Vec::new();
    for value in candidates {
        let free = |other: &f64| {
            let needed = (room(&axis.unit.tick(value)) + room(&axis.unit.tick(*other))) / 2.0;
            (place(value) - place(*other)).abs() >= needed
        };
        if chosen.iter().all(free) {
            chosen.push(value);
        }
    }
    chosen.sort_by(f64::total_cmp);
    chosen
}

fn logarithmic(axis: &Axis, scale: Scale, chosen: Vec<f64>, (low, high): (f64, f64)) -> Ruler {
    let ticks: Vec<Tick> = chosen.iter().map(|at| Tick { at: *at, label: axis.unit.tick(*at) }).collect();
    // Which units the ticks are in, as the labels say themselves.
    let of = |tick: Option<&Tick>| tick.and_then(|tick| Some(tick.label.split_once(' ')?.1.to_string())).unwrap_or_default();
    let (first, last) = (of(ticks.first()), of(ticks.last()));
    let unit = match (first.is_empty(), first == last) {
        (true, _) => axis.unit.of_axis(1.0).1,
        (false, true) => first,
        (false, false) => format!("{first} to {last}"),
    };
    let unit = match (scale, unit.is_empty()) {
        (Scale::Log10, true) => "log scale".to_string(),
        (Scale::Log10, false) => format!("{unit}, log scale"),
        _ => unit,
    };
    Ruler { ticks, title: title(&axis.name, &unit), scale, low, high }
}

/// A linear axis, or a logarithmic one where the largest of the values is more than `factor` times the smallest.
pub fn scale_for(values: &[f64], factor: f64) -> Scale {
    let positive = || values.iter().copied().filter(|v| v.is_finite() && *v > 0.0);
    let (least, most) = (positive().fold(f64::INFINITY, f64::min), positive().fold(0.0, f64::max));
    if most > least * factor { Scale::Log10 } else { Scale::Linear }
}

/// `1.80 times`, `23.4 times`, `1,200 times`.
pub fn times(ratio: f64) -> String {
    format!("{} times", quotient(ratio))
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
    use crate::plot::Unit;

    fn labels(axis: &Axis, values: &[f64], length: f64) -> String {
        let ruler = Ruler::of(axis, values, length, &|label| label.chars().count() as f64 * 7.0 + 10.0);
        for two in ruler.ticks.windows(2) {
            let place = |tick: &Tick| ruler.place(tick.at).unwrap() * length;
            assert!(place(&two[1]) - place(&two[0]) > 7.0, "{ruler:?}");
        }
        format!("{}: {}", ruler.title, ruler.ticks.iter().map(|t| t.label.as_str()).collect::<Vec<_>>().join(" | "))
    }

    fn axis(unit: Unit, scale: Scale) -> Axis {
        Axis { name: "A".into(), unit, scale }
    }

    #[test]
    fn ticks_are_round_and_have_room() {
        let seconds = axis(Unit::Seconds, Scale::Linear);
        assert_eq!(labels(&seconds, &[3.2, 11.9], 300.0), "A (s): 0 | 2 | 4 | 6 | 8 | 10 | 12");
        assert_eq!(labels(&seconds, &[0.0123], 120.0), "A (ms): 0 | 5 | 10 | 15");
        assert_eq!(labels(&seconds, &[7000.0], 300.0), "A (minutes): 0 | 20 | 40 | 60 | 80 | 100 | 120");
        let rate = axis(Unit::Rate, Scale::Linear);
        assert_eq!(labels(&rate, &[47e6], 100.0), "A (MiB/s): 0 | 20 | 40 | 60");
        let streams = axis(Unit::Count("streams"), Scale::Log2);
        assert_eq!(labels(&streams, &[1.0, 2.0, 4.0, 6.0, 8.0, 16.0], 300.0), "A (number): 1 | 2 | 4 | 6 | 8 | 16");
        assert_eq!(labels(&streams, &[1.0, 2.0, 4.0, 6.0, 8.0, 16.0], 130.0), "A (number): 1 | 2 | 4 | 8 | 16");
        let sizes = axis(Unit::Bytes, Scale::Log2);
        assert_eq!(labels(&sizes, &[4096.0, 65_536.0, 1_048_576.0], 300.0), "A (KiB to MiB): 4 KiB | 64 KiB | 1 MiB");
        let latency = axis(Unit::Seconds, Scale::Log10);
        assert_eq!(
            labels(&latency, &[0.000_04, 2.3], 500.0),
            "A (µs to s, log scale): 20.0 µs | 100 µs | 1 ms | 10 ms | 100 ms | 1 s | 5 s"
        );
    }
}
