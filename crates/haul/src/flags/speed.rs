//! How fast: haul finds the number of workers itself, these are for those who know better.

use clap::Args;
use haul_core::spec::Performance;
use haul_core::stripe::{MOST_STRIPES, Stripe, UNIT};

use super::Refusal;
use crate::units::{self, Rate};

#[derive(Args)]
#[command(next_help_heading = "Performance")]
pub struct WorkersArgs {
    /// Use N workers (default: auto-tuned)
    #[arg(short = 'j', long, visible_alias = "numworkers", value_name = "N", value_parser = workers)]
    pub(super) workers: Option<u32>,
}

#[derive(Args)]
#[command(next_help_heading = "Performance")]
pub struct SpeedArgs {
    #[command(flatten)]
    workers: WorkersArgs,
    /// Limit throughput to RATE per second: 400M, 1.5G, 10Gbit (without a unit KiB as in rsync; 0: unlimited)
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    bwlimit: Option<Rate>,
}

fn workers(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(number @ 1..=4096) => Ok(number),
        Ok(number) => Err(format!("{number} is not in 1..=4096")),
        Err(_) => Err("-j is a number of workers, 1..=4096; to go through another host write -J HOST".into()),
    }
}

impl SpeedArgs {
    pub(super) fn resolve(&self) -> Performance {
        Performance { workers: self.workers.workers, bandwidth: self.bwlimit.and_then(|rate| rate.0), ..Performance::default() }
    }
}

/// `auto`, `none`, `8` or `8,4M`.
fn stripe(text: &str) -> Result<Stripe, String> {
    let refuse =
        || format!("'{text}' is not auto, none or COUNT[,SIZE]: 1 to {MOST_STRIPES} servers, stripes of a multiple of 64K below 4G");
    let (count, size) = match (text, text.split_once(',')) {
        ("auto", _) => return Ok(Stripe::Auto),
        ("none", _) => return Ok(Stripe::None),
        (_, Some((count, size))) => (count, Some(units::parse_size(size)?)),
        _ => (text, None),
    };
    let count = count.parse().ok().filter(|count| (1..=MOST_STRIPES).contains(count)).ok_or_else(refuse)?;
    let size = size.map(|size| u32::try_from(size).ok().filter(|size| *size > 0 && size % UNIT == 0).ok_or_else(refuse)).transpose()?;
    Ok(Stripe::Over { count, size })
}

/// The smallest chunk: below it a chunk costs more to note than to move.
const CHUNK_LEAST: u64 = 64 << 10;

#[derive(Args)]
#[command(next_help_heading = "Performance")]
pub struct TransportArgs {
    /// Set the chunk size of large files, at least 64K (default: 16M, on most remote hosts 4M)
    #[arg(long, visible_alias = "part-size", value_name = "SIZE", value_parser = units::parse_size)]
    chunk_size: Option<u64>,
    /// Let at most N workers transfer chunks of the same file (-j limits all of them together)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    concurrency: Option<u32>,
    /// Use N data connections per host (default: auto-tuned)
    #[arg(long, visible_alias = "parallel", value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    streams: Option<u8>,
    /// Compress data on the network (no effect on local copies)
    #[arg(short = 'z', long)]
    compress: bool,
    /// Copy changed files whole, without delta transfer (always so for local copies)
    #[arg(short = 'W', long)]
    whole_file: bool,
    /// Stripe large files on Lustre: auto, none, or COUNT[,SIZE] (default: auto, by size)
    #[arg(long, value_name = "STRIPES", value_parser = stripe)]
    stripe: Option<Stripe>,
}

impl TransportArgs {
    /// Adds to what [`SpeedArgs`] say.
    pub(super) fn resolve(&self, performance: Performance) -> Result<Performance, Refusal> {
        match self.chunk_size {
            Some(chunk) if chunk < CHUNK_LEAST => {
                Err("--chunk-size (--part-size) is below 64 KiB, the smallest useful chunk; write 64K or more".into())
            }
            chunk => Ok(Performance {
                chunk,
                concurrency: self.concurrency,
                streams: self.streams.map(usize::from),
                compress: self.compress,
                whole_file: self.whole_file,
                stripe: self.stripe.unwrap_or_default(),
                ..performance
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_are_words_or_numbers() {
        let over = |count, size| Ok(Stripe::Over { count, size });
        assert_eq!((stripe("auto"), stripe("none")), (Ok(Stripe::Auto), Ok(Stripe::None)));
        assert_eq!((stripe("8"), stripe("8,4M"), stripe("2000,64K")), (over(8, None), over(8, Some(4 << 20)), over(2000, Some(64 << 10))));
        for wrong in ["", "0", "2001", "-1", "8,", "8,0", "8,1000", "8,4G", "8,4M,1", "many"] {
            assert!(stripe(wrong).is_err(), "{wrong}");
        }
    }
}
