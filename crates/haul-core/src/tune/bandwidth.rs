//! How ranks share the rate of `--bwlimit`, which is the job's.

use std::time::Duration;

/// Between two divisions.
const WINDOW: Duration = Duration::from_secs(2);
/// A rank that moves this part of its share uses it.
const USES: f64 = 0.7;
/// What ranks that have nothing to move keep together, to begin with: a part of the rate.
const RESERVE: f64 = 0.1;

#[derive(Debug)]
pub struct TeamLimit {
    rate: f64,
    shares: Vec<f64>,
    since: Duration,
    /// Bytes of each rank at that time.
    moved: Vec<u64>,
}

impl TeamLimit {
    /// At the beginning all have the same.
    #[must_use]
    pub fn new(rate: u64, ranks: u32) -> TeamLimit {
        let ranks = ranks.max(1) as usize;
        TeamLimit { rate: rate as f64, shares: vec![rate as f64 / ranks as f64; ranks], since: Duration::ZERO, moved: vec![0; ranks] }
    }

    /// Bytes a second of one rank.
    #[must_use]
    pub fn share(&self, rank: u32) -> u64 {
        self.shares.get(rank as usize).map_or(1, |share| (*share as u64).max(1))
    }

    #[must_use]
    pub fn is_due(&self, now: Duration) -> bool {
        now.saturating_sub(self.since) >= WINDOW
    }

    /// Divides anew by what each rank has moved so far. All shares together are the rate at most.
    pub fn look(&mut self, now: Duration, moved: &[u64]) -> bool {
        if !self.is_due(now) || moved.len() != self.shares.len() {
            return false;
        }
        let seconds = now.saturating_sub(self.since).as_secs_f64();
        let used: Vec<f64> = moved.iter().zip(&self.moved).map(|(now, then)| now.saturating_sub(*then) as f64 / seconds).collect();
        (self.since, self.moved) = (now, moved.to_vec());
        let (ranks, least) = (self.shares.len() as f64, self.rate * RESERVE / self.shares.len() as f64);
        let users = used.iter().zip(&self.shares).filter(|(used, share)| **used >= **share * USES).count() as f64;
        let new: Vec<f64> = if users == 0.0 {
            vec![self.rate / ranks; self.shares.len()]
        } else {
            let lesser = |used: f64, share: f64| if used >= share * USES { None } else { Some((used / USES).max(least).min(share)) };
            let lesser: Vec<_> = used.iter().zip(&self.shares).map(|(used, share)| lesser(*used, *share)).collect();
            let left = self.rate - lesser.iter().flatten().sum::<f64>();
            lesser.into_iter().map(|share| share.unwrap_or(left / users)).collect()
        };
        let changed = new.iter().zip(&self.shares).any(|(new, old)| (new - old).abs() > 0.05 * old);
        if changed {
            self.shares = new;
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shares after some windows in which each rank moves `wants` at most.
    fn settled(limit: &mut TeamLimit, wants: &[u64], from: u64) -> Vec<u64> {
        let mut moved = limit.moved.clone();
        for window in 1..=8 {
            let step = |(rank, moved): (usize, &mut u64)| *moved += 2 * wants[rank].min(limit.share(rank as u32));
            moved.iter_mut().enumerate().for_each(step);
            limit.look(Duration::from_secs(from + 2 * window), &moved);
            assert!(limit.shares.iter().sum::<f64>() <= 1001.0, "{limit:?}");
        }
        (0..wants.len()).map(|rank| limit.share(rank as u32)).collect()
    }

    #[test]
    fn ranks_that_move_more_get_what_others_leave() {
        let mut limit = TeamLimit::new(1000, 4);
        assert_eq!(settled(&mut limit, &[9999; 4], 0), [250; 4]);
        assert_eq!(settled(&mut limit, &[9999, 0, 0, 0], 16), [925, 25, 25, 25]);
        let two = settled(&mut limit, &[9999, 0, 9999, 100], 32);
        assert!(two[0] == two[2] && (390..=430).contains(&two[0]) && two[3] >= 100, "{two:?}");
        assert_eq!(settled(&mut limit, &[0; 4], 48), [250; 4]);
    }
}
