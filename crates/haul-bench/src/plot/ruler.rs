//! The ticks of an axis, and the place of a number on it. Pure.

use super::unit::grouped;
use super::{Axis, Scale, Unit};

#[derive(Clone, Debug, PartialEq)]
pub struct Ruler {
    pub ticks: Vec<Tick>,
    pub title: String,
    logarithmic: bool,
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
        match (axis.scale, values.last()) {
            (Scale::Linear, Some(most)) => linear(axis, *most, length, room),
            (_, None) => linear(axis, 1.0, length, room),
            _ => logarithmic(axis, &values, length, room),
        }
    }

    /// From 0 at the axis' beginning to 1 at its end; `None` where the axis has no place for it.
    pub fn place(&self, value: f64) -> Option<f64> {
        let at = match self.logarithmic {
            false => (value - self.low) / (self.high - self.low),
            true => (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln()),
        };
        at.is_finite().then(|| at.clamp(0.0, 1.0))
    }
}

/// 1, 2 or 5 times a power of ten, not below `value` > 0.
fn step_from(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|by| by * power).find(|step| *step >= value * 0.999_999).unwrap_or(10.0 * power)
}

/// The same, not above `value`.
fn step_to(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    [5.0, 2.0].into_iter().map(|by| by * power).find(|step| *step <= value * 1.000_001).unwrap_or(power)
}

fn linear(axis: &Axis, most: f64, length: f64, room: Room<'_>) -> Ruler {
    let most = if most > 0.0 { most } else { 1.0 };
    let (by, unit) = axis.unit.of_axis(most);
    let top = most / by;
    // Whole things have no halves.
    let mut step = step_from(top / 10.0).max(if matches!(axis.unit, Unit::Count(_)) { 1.0 } else { 0.0 });
    loop {
        let places = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
        let count = (top / step - 1e-9).ceil().max(1.0) as usize;
        let ticks: Vec<Tick> = (0..=count).map(|i| Tick { at: i as f64 * step * by, label: grouped(i as f64 * step, places) }).collect();
        let widest = ticks.iter().map(|tick| room(&tick.label)).fold(0.0, f64::max);
        if widest <= length / count as f64 || count <= 1 {
            let high = count as f64 * step * by;
            return Ruler { ticks, title: format!("{} ({unit})", axis.name), logarithmic: false, low: 0.0, high };
        }
        step = step_from(step * 1.5);
    }
}

/// From the least to the most of the sorted `values`, rounded outwards on a decimal axis.
fn logarithmic(axis: &Axis, values: &[f64], length: f64, room: Room<'_>) -> Ruler {
    let (mut low, mut high) = (values[0], values[values.len() - 1]);
    // No measurement covers more than 18 decades; the bound keeps hostile input from taking for ever.
    low = low.max(high * 1e-18);
    let decimal = axis.scale == Scale::Log10;
    if decimal {
        (low, high) = (step_to(low), step_from(high));
    }
    if high / low < 1.000_001 {
        (low, high) = (low / 2.0, high * 2.0);
    }
    // In the order in which they are chosen: round numbers, the ends, measured values; powers of two if there are few.
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let fine = decades.clone().flat_map(|decade| [1.0, 2.0, 5.0].map(|by| by * 10f64.powi(decade)));
    let mut candidates: Vec<f64> = if decimal {
        decades.clone().map(|decade| 10f64.powi(decade)).chain(fine).collect()
    } else {
        let measured = values.iter().filter(|v| v.log2().fract() == 0.0).chain(values);
        [values[0], values[values.len() - 1]].iter().chain(measured).copied().collect()
    };
    if !decimal && values.len() < 3 {
        candidates.extend((-40..70).map(|power| 2f64.powi(power)));
    }
    let place = |value: f64| (value.ln() - low.ln()) / (high.ln() - low.ln()) * length;
    let mut chosen: Vec<f64> = Vec::new();
    for value in candidates.into_iter().filter(|v| *v >= low * 0.999_999 && *v <= high * 1.000_001) {
        let width = |value: f64| room(&axis.unit.tick(value)) / 2.0;
        if chosen.iter().all(|other| (place(value) - place(*other)).abs() >= width(value) + width(*other)) {
            chosen.push(value);
        }
    }
    chosen.sort_by(f64::total_cmp);
    let ticks = chosen.into_iter().map(|at| Tick { at, label: axis.unit.tick(at) }).collect();
    Ruler { ticks, title: axis.name.clone() + if decimal { " (log scale)" } else { "" }, logarithmic: true, low, high }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(unit: Unit, scale: Scale, values: &[f64], length: f64) -> String {
        let axis = Axis { name: "A".into(), unit, scale };
        let ruler = Ruler::of(&axis, values, length, &|label| label.chars().count() as f64 * 7.0 + 10.0);
        for two in ruler.ticks.windows(2) {
            let place = |tick: &Tick| ruler.place(tick.at).unwrap() * length;
            assert!(place(&two[1]) - place(&two[0]) > 7.0, "{ruler:?}");
        }
        format!("{}: {}", ruler.title, ruler.ticks.iter().map(|t| t.label.as_str()).collect::<Vec<_>>().join(" | "))
    }

    #[test]
    fn ticks_are_round_and_have_room() {
        use Scale::{Linear, Log2, Log10};
        assert_eq!(labels(Unit::Seconds, Linear, &[3.2, 11.9], 300.0), "A (s): 0 | 2 | 4 | 6 | 8 | 10 | 12");
        assert_eq!(labels(Unit::Seconds, Linear, &[0.0123], 120.0), "A (ms): 0 | 5 | 10 | 15");
        assert_eq!(labels(Unit::Seconds, Linear, &[7000.0], 300.0), "A (minutes): 0 | 20 | 40 | 60 | 80 | 100 | 120");
        assert_eq!(labels(Unit::Rate, Linear, &[47e6], 100.0), "A (MiB/s): 0 | 20 | 40 | 60");
        let streams = [1.0, 2.0, 4.0, 6.0, 8.0, 16.0];
        assert_eq!(labels(Unit::Count("streams"), Log2, &streams, 300.0), "A: 1 | 2 | 4 | 6 | 8 | 16");
        assert_eq!(labels(Unit::Count("streams"), Log2, &streams, 130.0), "A: 1 | 2 | 4 | 8 | 16");
        assert_eq!(labels(Unit::Bytes, Log2, &[4096.0, 65_536.0, 1_048_576.0], 300.0), "A: 4 KiB | 64 KiB | 1 MiB");
        let decades = "A (log scale): 20.0 µs | 100 µs | 1 ms | 10 ms | 100 ms | 1 s | 5 s";
        assert_eq!(labels(Unit::Seconds, Log10, &[0.000_04, 2.3], 500.0), decades);
    }
}
