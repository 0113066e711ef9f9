//! Copies a tree and prints its own progress: `cargo run -p haul-run --example copy SRC DST`. Both are addresses as `haul cp` takes them.

use std::sync::Arc;

use haul_core::event::{Event, Observer};
use haul_core::spec::{Operation, TransferSpec};
use haul_core::units;
use haul_run::{location, transfer};

struct Lines;

impl Observer for Lines {
    fn on(&self, event: &Event<'_>) {
        match event {
            Event::Progress(now) => println!("{} of {} files", now.done_files, now.planned_files),
            Event::Failed { error, .. } => eprintln!("{error}"),
            _ => {}
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let places: Result<Vec<_>, _> = std::env::args_os().skip(1).map(|word| location::parse(&word, &|path| path.exists())).collect();
    let [source, destination] = <[_; 2]>::try_from(places?).map_err(|_| "usage: copy SRC DST")?;
    let spec = TransferSpec::new(Operation::Copy, vec![source], destination);
    let report = transfer(&spec, Arc::new(Lines))?;
    println!("{} files, {} in {:.1?}", report.made.files, units::bytes(report.bytes), report.elapsed);
    Ok(())
}
