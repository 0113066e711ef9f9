//! `haul bench sweep`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use haul_bench::contest::{Call, Contender, Ground as _, Own};
use haul_bench::process::{Bounds, Ending, Group};
use haul_bench::record::{Kind, Sample, Tool};
use haul_bench::report::{Lead, Metric, Point as Measured, beside, by_cost, is_own, points};
use haul_bench::sweep::{Direction, Point};
use haul_core::cancel::Cancel;
use haul_core::entry::show;
use haul_core::error::{Error, ErrorKind, Result};
use serde_json::{Value, json};

use super::contest::{self, Asked, From, Ground, Keeping, reach};
use crate::exit::Exit;
use crate::flags::Global;
use crate::flags::bench::SweepFlags;
use crate::flags::connect::Connect;
use crate::hosts::Hosts;
use crate::location::Location;
use crate::out;

/// The copy at the destination that is read back; the name stands for nothing that is measured.
const FAR: &str = "read-back";

pub fn run(flags: &SweepFlags, global: &Global) -> Exit {
    sweep(flags, global).unwrap_or_else(|e| out::error(&e))
}

fn sweep(flags: &SweepFlags, global: &Global) -> Result<Exit> {
    contest::one_here(&flags.source, &flags.destination)?;
    let cancel = Cancel::default();
    let group = contest::listen(&cancel);
    let directions: Vec<Option<Direction>> =
        if flags.directions.is_empty() { vec![None] } else { flags.directions.iter().copied().map(Some).collect() };
    let points = flags.grid.points();
    let measured: Vec<(Option<Direction>, Point)> =
        directions.iter().flat_map(|direction| points.iter().map(|point| (*direction, *point))).collect();
    let known: Vec<String> = measured.iter().map(|(direction, point)| name_of(flags, *point, *direction)).collect();
    let keeping = Keeping::of(&flags.contest, global, Kind::Sweep, &known, &[FAR]);
    let connect = &flags.contest.connect;
    let hosts = Hosts::new(connect);
    let from = From::open(&flags.source, &hosts)?;
    keeping.apart(&from, &flags.contest)?;
    let target = Ground::open(&flags.destination, &hosts, &from, 0, &keeping.own)?;
    let back = flags.back.as_ref().map(|dir| Location::local(dir.as_os_str().as_bytes()));
    let back = back.map(|dir| Ground::open(&dir, &hosts, &from, 1, &keeping.own)).transpose()?;
    let grounds: Vec<&Ground<'_>> = std::iter::once(&target).chain(&back).collect();
    let far = Far {
        target: &target,
        from: &from,
        keeping: &keeping,
        connect,
        flags,
        cancel: &cancel,
        group: &group,
        made: Cell::new(false),
        failed: RefCell::default(),
    };
    let contenders: Vec<Contender<'_>> =
        measured.iter().map(|(direction, point)| contender(flags, *point, *direction, &far, &grounds)).collect();
    let program = std::env::current_exe().map_err(|e| Error::io(e, "find this program"))?;
    let tool = Tool {
        name: "haul".into(),
        path: show(program.as_os_str().as_bytes()),
        version: Some(format!("haul {}", env!("CARGO_PKG_VERSION"))),
    };
    let asked = Asked {
        kind: Kind::Sweep,
        flags: &flags.contest,
        global,
        keeping: &keeping,
        from: &from,
        grounds: &grounds,
        contenders: &contenders,
        tools: vec![tool],
        settings: [(
            "grid".to_string(),
            json!({
                "workers": flags.grid.workers,
                "chunk": flags.grid.chunks,
                "concurrency": flags.grid.concurrency,
                "logins": flags.grid.logins,
                "directions": flags.directions.iter().map(|direction| direction.word()).collect::<Vec<_>>(),
            }),
        )]
        .into(),
        cancel: &cancel,
        group: &group,
    };
    let held = asked.hold();
    if far.made.get() {
        target.clear(FAR)?;
        if keeping.dir.exists() {
            let own = Own::of(&keeping.dir);
            own.done(FAR)?;
            own.forget();
        }
    }
    let held = held?;
    held.show("bench-sweep", document(&held.run.samples), global)?;
    Ok(held.exit())
}

fn name_of(flags: &SweepFlags, point: Point, direction: Option<Direction>) -> String {
    let name = std::iter::once("haul".to_string()).chain(point.options()).collect::<Vec<_>>().join(" ");
    let way = direction.filter(|_| flags.directions.len() > 1).map_or(String::new(), |direction| format!(" ({})", direction.word()));
    name + &way
}

fn contender<'a>(
    flags: &'a SweepFlags,
    point: Point,
    direction: Option<Direction>,
    far: &'a Far<'a>,
    grounds: &'a [&'a Ground<'a>],
) -> Contender<'a> {
    let reads_back = direction == Some(Direction::Get) && flags.back.is_some();
    let ground = usize::from(reads_back);
    let name = name_of(flags, point, direction);
    let prepare = move |fresh: &str| {
        let from = if reads_back { far.address()? } else { far.from.location.clone() };
        let target = grounds[ground].at(fresh);
        Ok(far.call(&point.options().iter().map(OsString::from).collect::<Vec<_>>(), &from, &target))
    };
    Contender { name, factors: flags.grid.factors(point, direction), ground, prepare: Box::new(prepare), absent: None }
}

/// A copy at the destination to be read back, made when it is first needed.
struct Far<'a> {
    target: &'a Ground<'a>,
    from: &'a From,
    keeping: &'a Keeping,
    connect: &'a Connect,
    flags: &'a SweepFlags,
    cancel: &'a Cancel,
    group: &'a Group,
    made: Cell<bool>,
    failed: RefCell<Option<Error>>,
}

impl Far<'_> {
    /// `haul cp`, with the options of a point, of a source into a directory.
    fn call(&self, options: &[OsString], from: &Location, target: &Location) -> Call {
        let name = &self.from.name;
        // A prefix of an object store has no name of its own: what is in it goes into a directory of that name.
        let prefix = from.scheme.keys && self.from.is_dir;
        let source = Location { trailing_slash: prefix, ..from.clone() };
        let target = match prefix {
            true => Location { path: [&target.path[..], b"/", name].concat(), trailing_slash: false, ..target.clone() },
            false => Location { trailing_slash: true, ..target.clone() },
        };
        let mut argv: Vec<OsString> = vec![std::env::current_exe().unwrap_or_else(|_| "haul".into()).into(), "cp".into(), "-q".into()];
        argv.extend(options.iter().cloned());
        if source.is_remote() || target.is_remote() {
            // A point that has logins of its own comes before what was asked for all.
            let fixed = options.iter().any(|option| option == "--logins");
            argv.extend(
                reach::haul_options(self.connect).into_iter().filter(|option| !(fixed && option.as_bytes().starts_with(b"--logins="))),
            );
        }
        argv.extend([source.to_bytes(), target.to_bytes()].iter().map(|bytes| OsStr::from_bytes(bytes).to_os_string()));
        Call { stages: vec![argv], input: None, env: self.keeping.env() }
    }

    /// Where the copy lies.
    fn address(&self) -> Result<Location> {
        if let Some(e) = self.failed.borrow().as_ref() {
            return Err(e.again());
        }
        let dir = self.target.at(FAR);
        if !self.made.get() {
            // What stands there already is not this run's to be removed.
            let made = Own::of(&self.keeping.dir).make(0, self.target, FAR).and_then(|()| {
                self.made.set(true);
                self.copy(&dir)
            });
            if let Err(e) = made {
                *self.failed.borrow_mut() = Some(e.again());
                return Err(e);
            }
        }
        let path = [&dir.path[..], b"/", &self.from.name].concat();
        Ok(Location { path, trailing_slash: dir.scheme.keys && self.from.is_dir, ..dir })
    }

    fn copy(&self, dir: &Location) -> Result<()> {
        let call = self.call(&[], &self.from.location, dir);
        let bounds = Bounds { limit: self.flags.contest.limit, cancel: self.cancel, group: self.group };
        let ran = haul_bench::process::run(&call.stages[0], &call.env, bounds)?;
        if let Some(process) = ran.stuck {
            return Err(haul_bench::contest::unkillable(process, "haul"));
        }
        let e = Error::new(ErrorKind::Other, "make the copy that is read back").at(&dir.to_bytes());
        match ran.ending {
            Ending::Exit(0) => Ok(()),
            Ending::Cancelled => Err(e.kind_is(ErrorKind::Cancelled)),
            Ending::Timeout => Err(e.kind_is(ErrorKind::TimedOut).because("not done within --limit").hint("give it a longer --limit")),
            _ => Err(e.because(show(ran.stderr.trim_ascii()))),
        }
    }
}

/// Everything that `--json` has, one object for each direction.
fn document(samples: &[Sample]) -> Value {
    let points = points(samples);
    let mut sides: BTreeMap<&str, Vec<&Measured<'_>>> = BTreeMap::new();
    for point in &points {
        sides.entry(point.factors.get("direction").and_then(Value::as_str).unwrap_or_default()).or_default().push(point);
    }
    json!({"sides": sides.into_iter().map(|(direction, points)| side(direction, &points)).collect::<Vec<_>>()})
}

fn side(direction: &str, points: &[&Measured<'_>]) -> Value {
    let point = |point: &&Measured<'_>| {
        let mut out = contest::point_json(point);
        out["name"] = point.contender.into();
        out["own_choice"] = is_own(point).into();
        out["factors"] = json!(point.factors);
        out
    };
    let (own, fixed): (Vec<&Measured<'_>>, Vec<&Measured<'_>>) = points.iter().copied().partition(|point| is_own(point));
    let lead = Lead::of(&fixed, Metric::Seconds);
    let own = own.first().copied().filter(|own| !own.is_wrong());
    // A ratio of speeds is the inverse of that of times.
    let reached = lead.as_ref().zip(own).and_then(|(lead, own)| beside(lead.best, own, Metric::Seconds)).map(|time| {
        json!({
            "share": 1.0 / time.ratio,
            "interval": [1.0 / time.interval.1, 1.0 / time.interval.0],
            "time": contest::difference_json(&time),
        })
    });
    json!({
        "direction": (!direction.is_empty()).then_some(direction),
        "points": by_cost(points, Metric::Seconds).iter().map(point).collect::<Vec<_>>(),
        "not_significantly_slower": lead.as_ref().map_or(0, |lead| lead.level.len()),
        "best": lead.as_ref().map(|lead| lead.best.contender),
        "own_choice_reaches": reached,
    })
}
