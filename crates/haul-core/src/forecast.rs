//! The time that the rest of a run takes, from what bytes and files have taken so far. Pure: the time comes in.
//!
//! `seconds = byte * bytes + file * files`, by least squares over the run, with costs that are not negative: a mean time per file
//! would charge each small file that is left with what large ones took.

use std::time::Duration;

/// After this long a moment has half its weight.
const HALF_LIFE: f64 = 15.0;

/// Below this share of what they could be apart, bytes and files went in step: the time is then the bytes'.
const IN_STEP: f64 = 1e-3;

/// Seconds for one byte and for one file. Neither is negative.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    pub byte: f64,
    pub file: f64,
}

impl Cost {
    /// For so much. `None` where nothing is known of what is left.
    pub fn of(self, bytes: u64, files: u64) -> Option<Duration> {
        let seconds = self.byte * bytes as f64 + self.file * files as f64;
        let nothing = bytes == 0 && files == 0;
        (seconds > 0.0 || nothing).then(|| Duration::from_secs_f64(seconds.min(1e9)))
    }
}

/// Takes the moments of a run in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forecast {
    last: Option<(Duration, u64, u64)>,
    /// Sums of products, the older ones with less weight.
    bytes_bytes: f64,
    bytes_files: f64,
    files_files: f64,
    time_bytes: f64,
    time_files: f64,
    time: f64,
    bytes: f64,
    files: f64,
}

impl Forecast {
    /// Bytes moved and files done at `now`; none of the three decreases. Nothing is learned before the first.
    pub fn observe(&mut self, now: Duration, bytes: u64, files: u64) {
        let Some((then, bytes_then, files_then)) = self.last.replace((now, bytes, files)) else { return };
        let time = now.saturating_sub(then).as_secs_f64();
        let (b, f) = (bytes.saturating_sub(bytes_then) as f64, files.saturating_sub(files_then) as f64);
        if b == 0.0 && f == 0.0 && self.time == 0.0 {
            return;
        }
        let keep = 0.5f64.powf(time / HALF_LIFE);
        let add = |sum: &mut f64, value: f64| *sum = *sum * keep + value;
        add(&mut self.bytes_bytes, b * b);
        add(&mut self.bytes_files, b * f);
        add(&mut self.files_files, f * f);
        add(&mut self.time_bytes, time * b);
        add(&mut self.time_files, time * f);
        add(&mut self.time, time);
        add(&mut self.bytes, b);
        add(&mut self.files, f);
    }

    /// What a byte and a file cost now.
    pub fn cost(&self) -> Cost {
        let fit = self.fit();
        // Moments in which nothing ends and others in which much does would make costs too small: the sums must agree.
        let told = fit.byte * self.bytes + fit.file * self.files;
        if told <= 0.0 || !told.is_finite() {
            return Cost::default();
        }
        let by = self.time / told;
        Cost { byte: fit.byte * by, file: fit.file * by }
    }

    fn fit(&self) -> Cost {
        let alone = |with: f64, square: f64| if square > 0.0 { with / square } else { 0.0 };
        let (of_bytes, of_files) = (alone(self.time_bytes, self.bytes_bytes), alone(self.time_files, self.files_files));
        let only_bytes = Cost { byte: of_bytes, file: 0.0 };
        let apart = self.bytes_bytes * self.files_files - self.bytes_files * self.bytes_files;
        if self.bytes_bytes == 0.0 {
            return Cost { byte: 0.0, file: of_files };
        }
        if apart <= IN_STEP * self.bytes_bytes * self.files_files {
            return only_bytes;
        }
        let byte = (self.time_bytes * self.files_files - self.time_files * self.bytes_files) / apart;
        let file = (self.time_files * self.bytes_bytes - self.time_bytes * self.bytes_files) / apart;
        match (byte > 0.0, file > 0.0) {
            (true, true) => Cost { byte, file },
            (true, false) => only_bytes,
            (false, _) => Cost { byte: 0.0, file: of_files },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Moves the files one after the other, and says at each moment what was forecast and what was right, in seconds.
    fn moved(files: &[u64], a_second: f64, each: f64) -> Vec<(f64, f64)> {
        let ends: Vec<f64> = files
            .iter()
            .scan(0.0, |at, size| {
                *at += each + *size as f64 / a_second;
                Some(*at)
            })
            .collect();
        let end = *ends.last().unwrap();
        let (all, count) = (files.iter().sum::<u64>(), files.len() as u64);
        let mut forecast = Forecast::default();
        let mut seen = Vec::new();
        let mut now = 0.0;
        while now < end {
            let done = ends.partition_point(|at| *at <= now);
            let began = if done == 0 { 0.0 } else { ends[done - 1] };
            let part = ((now - began - each).max(0.0) * a_second) as u64;
            let bytes = files[..done].iter().sum::<u64>() + part.min(files[done]);
            forecast.observe(Duration::from_secs_f64(now), bytes, done as u64);
            if now > 1.0 {
                let left = forecast.cost().of(all - bytes, count - done as u64).map_or(f64::NAN, |left| left.as_secs_f64());
                seen.push((left, end - now));
            }
            now += 0.15;
        }
        seen
    }

    #[track_caller]
    fn within(factor: f64, seen: &[(f64, f64)]) {
        // The last moments are a matter of single files.
        for (left, right) in seen.iter().filter(|(_, right)| *right > 1.0) {
            assert!(*left < right * factor && *left > right / factor, "{left} s were forecast, {right} s are left");
        }
    }

    #[test]
    fn small_files_behind_large_ones_do_not_take_as_long_under_a_limit() {
        let (large, small) = (vec![20 * MIB; 2], vec![4096; 2000]);
        within(1.1, &moved(&[large.clone(), small.clone()].concat(), MIB as f64, 0.0));
        within(1.1, &moved(&[small.clone(), large.clone()].concat(), MIB as f64, 0.0));
        let mixed: Vec<u64> = (0..1500).map(|n| if n % 300 == 7 { 8 * MIB } else { 4096 }).collect();
        within(1.1, &moved(&mixed, MIB as f64, 0.0));
    }

    #[test]
    fn both_cost_what_they_cost() {
        // 5 ms a file, and 100 MiB/s: both have been met when the second half begins.
        let mixed: Vec<u64> = (0..4000).map(|n| if n % 20 == 7 { 20 * MIB } else { 100 }).collect();
        within(1.3, &moved(&mixed, 100.0 * MIB as f64, 0.005));
        // All of a size: either will do.
        within(1.2, &moved(&[0; 2000], 1.0, 0.005));
        within(1.2, &moved(&[50_000; 2000], 10.0 * MIB as f64, 0.005));
    }

    #[test]
    fn nothing_known_is_nothing_forecast() {
        let mut forecast = Forecast::default();
        assert_eq!(forecast.cost().of(1, 1), None);
        assert_eq!(forecast.cost().of(0, 0), Some(Duration::ZERO));
        for tenth in 0..=50 {
            forecast.observe(Duration::from_millis(tenth * 100), 0, 0);
        }
        assert_eq!(forecast.cost(), Cost::default());
        forecast.observe(Duration::from_secs(6), 1000, 0);
        assert_eq!(forecast.cost().of(2000, 5), Some(Duration::from_secs(2)), "what passed before anything moved does not count");
        // A stall makes it longer.
        forecast.observe(Duration::from_secs(7), 1000, 0);
        assert!(forecast.cost().of(2000, 5) > Some(Duration::from_secs(3)));
    }

    #[test]
    fn a_rate_that_changes_is_followed() {
        let mut forecast = Forecast::default();
        let mut bytes = 0;
        for second in 0..200u64 {
            forecast.observe(Duration::from_secs(second), bytes, 0);
            bytes += if second < 100 { 1000 } else { 10_000 };
        }
        let left = forecast.cost().of(100_000, 1).unwrap().as_secs_f64();
        assert!((9.0..13.0).contains(&left), "{left}");
    }
}
