//! `haul bench sweep`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use haul_bench::comparison::{Call, Contender, prefix};
use haul_bench::record::{Kind, Tool};
use haul_bench::sweep::Point;
use haul_core::cancel::Cancel;
use haul_core::entry::show;
use haul_core::error::{Error, Result};
use serde_json::json;

use super::comparison::{self, Keeping, Origin, PlannedRun, Target, reach};
use crate::exit::Exit;
use crate::flags::Global;
use crate::flags::bench::SweepFlags;
use crate::flags::connect::Connect;
use crate::hosts::Hosts;
use crate::location::Location;
use crate::out;

pub fn run(flags: &SweepFlags, global: &Global) -> Exit {
    sweep(flags, global).unwrap_or_else(|e| out::error(&e))
}

fn sweep(flags: &SweepFlags, global: &Global) -> Result<Exit> {
    comparison::one_here(&flags.source, &flags.destination)?;
    let cancel = Cancel::default();
    let group = comparison::listen(&cancel);
    let keeping = Keeping::of(&flags.comparison, global, Kind::Sweep);
    let connect = &flags.comparison.connect;
    let hosts = Hosts::new(connect);
    let from = Origin::open(&flags.source, &hosts)?;
    keeping.apart(&from, &flags.comparison)?;
    let target = Target::open(&flags.destination, &hosts, &from, &prefix(&keeping.header))?;
    let program = std::env::current_exe().map_err(|e| Error::io(e, "find this program"))?;
    let contender = |point: Point| {
        let options = point.options();
        let name = std::iter::once("haul").chain(options.iter().map(String::as_str)).collect::<Vec<_>>().join(" ");
        let (program, from, target, keeping) = (&program, &from, &target, &keeping);
        let prepare = move |fresh: &str| {
            let argv = command(program.into(), &options, connect, from, target.at(fresh));
            Ok(Call { stages: vec![argv], input: None, env: keeping.env() })
        };
        Contender { name, factors: flags.grid.factors(point), prepare: Box::new(prepare), absent: None }
    };
    let contenders: Vec<Contender<'_>> = flags.grid.points().into_iter().map(contender).collect();
    let grid = json!({
        "workers": flags.grid.workers,
        "chunk": flags.grid.chunks,
        "concurrency": flags.grid.concurrency,
        "logins": flags.grid.logins,
    });
    let planned = PlannedRun {
        kind: Kind::Sweep,
        flags: &flags.comparison,
        global,
        keeping: &keeping,
        from: &from,
        target: &target,
        contenders: &contenders,
        tools: vec![Tool {
            name: "haul".into(),
            path: show(program.as_os_str().as_bytes()),
            version: Some(format!("haul {}", env!("CARGO_PKG_VERSION"))),
        }],
        settings: [("grid".to_string(), grid)].into(),
        cancel: &cancel,
        group: &group,
    };
    let finished = planned.run()?;
    finished.show("bench-sweep", global)?;
    Ok(finished.exit())
}

/// `haul cp` of the source into a directory, with the options of a point.
fn command(program: OsString, options: &[String], connect: &Connect, from: &Origin, target: Location) -> Vec<OsString> {
    // A prefix of an object store is copied as its content, so the target gets the name.
    let prefix = from.location.scheme.keys && from.is_dir;
    let source = Location { trailing_slash: prefix, ..from.location.clone() };
    let target = match prefix {
        true => Location { path: [&target.path[..], b"/", &from.name].concat(), trailing_slash: false, ..target },
        false => Location { trailing_slash: true, ..target },
    };
    let mut argv: Vec<OsString> = vec![program, "cp".into(), "-q".into()];
    argv.extend(options.iter().map(OsString::from));
    if source.is_remote() || target.is_remote() {
        // A point's own number of logins takes precedence.
        let fixed = options.iter().any(|option| option == "--logins");
        let shared = reach::haul_options(connect).into_iter();
        argv.extend(shared.filter(|option| !(fixed && option.as_bytes().starts_with(b"--logins="))));
    }
    argv.extend([source.to_bytes(), target.to_bytes()].iter().map(|bytes| OsStr::from_bytes(bytes).to_os_string()));
    argv
}
