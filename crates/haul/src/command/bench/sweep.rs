//! `haul bench sweep`.

use std::cell::{Cell, RefCell};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use haul_bench::contest::{Call, Contender, Ground as _, Own};
use haul_bench::process::{Bounds, Ending, Group};
use haul_bench::record::{Kind, Tool};
use haul_bench::sweep::summary::{self, Line, Side};
use haul_bench::sweep::{Direction, Point};
use haul_core::cancel::Cancel;
use haul_core::entry::show;
use haul_core::error::{Error, ErrorKind, Result};
use serde_json::{Value, json};

use super::contest::columns::{self, Column};
use super::contest::{self, Asked, From, Ground, Held, Keeping, Page, reach};
use crate::exit::Exit;
use crate::flags::Global;
use crate::flags::bench::SweepFlags;
use crate::flags::connect::Connect;
use crate::hosts::Hosts;
use crate::location::Location;
use crate::render::JSON_VERSION;
use crate::{out, units};

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
    let sides = summary::sides(&held.run.samples);
    print(flags, global, &held, &sides).map_err(|e| Error::io(e, "write"))?;
    Ok(match (held.stopped, sides.iter().flat_map(|side| &side.lines).any(|line| line.wall.is_some())) {
        (true, _) => Exit::Signal,
        (false, true) => Exit::Success,
        (false, false) => Exit::Partial,
    })
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

fn print(flags: &SweepFlags, global: &Global, held: &Held, sides: &[Side]) -> std::io::Result<()> {
    let mut page = Page::new(global);
    for side in sides {
        page.gap();
        if !side.direction.is_empty() {
            page.say(&format!("{}:", if side.direction == "put" { "put, from this machine" } else { "get, to this machine" }));
        }
        page.lines(columns::table(&table_of(flags, side), columns::width()));
        for line in &side.lines {
            for (outcome, reason) in &line.troubles {
                page.say(&format!("{}: {}: {reason}", line.name, outcome.words()));
            }
        }
        for sentence in sentences(side) {
            page.say(&sentence);
        }
    }
    page.gap();
    let failed = sides.iter().flat_map(|side| &side.lines).any(|line| line.wall.is_some() && !line.troubles.is_empty());
    let well = if failed { " of the copies that went well" } else { "" };
    page.say(&format!("time: median{well}; between: bounds of the true median. {}.", contest::COMPARED));
    if sides.iter().any(|side| side.lines.len() > 3) {
        page.say(&format!("{}.", contest::PICKED));
    }
    page.say(&contest::about_caches(&held.run));
    if held.stopped {
        contest::how_to_go_on(&mut page, held.run.dir(), &flags.contest);
    }
    page.print()?;
    if global.json {
        out::print(format!("{}\n", document(held, sides)).as_bytes())?;
    }
    Ok(())
}

fn table_of(flags: &SweepFlags, side: &Side) -> Vec<Column> {
    let factor = |line: &Line, name: &str| match line.factors.get(name) {
        Some(Value::Number(n)) if name == "chunk" => n.as_u64().map_or("-".into(), units::bytes),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => "-".into(),
    };
    let cells = |of: &dyn Fn(&Line) -> Option<String>| side.lines.iter().map(|line| contest::or_dash(of(line))).collect::<Vec<_>>();
    let mut columns = vec![Column::left("workers", cells(&|line| Some(factor(line, "streams"))))];
    let varied = [
        ("chunk", !flags.grid.chunks.is_empty()),
        ("concurrency", !flags.grid.concurrency.is_empty()),
        ("logins", !flags.grid.logins.is_empty()),
    ];
    for (name, _) in varied.into_iter().filter(|(_, varied)| *varied) {
        columns.push(Column::left(name, cells(&|line| Some(factor(line, name)))));
    }
    columns.extend([
        Column::right("time", cells(&|line| line.wall.map(|wall| contest::time(wall.median)))),
        Column::left("between", cells(&|line| line.wall.as_ref().map(contest::interval))),
        Column::right("rate", cells(&|line| line.wall.map(|_| contest::rate(line.rate, line.files_rate)))),
        Column::left(
            "copies",
            cells(&|line| {
                Some(match line.troubles.first() {
                    None => format!("{} right", line.right),
                    Some((outcome, _)) => format!("{} right, {}", line.right, outcome.words()),
                })
            }),
        ),
    ]);
    columns
}

/// The best point, and how near haul's own choice came.
fn sentences(side: &Side) -> Vec<String> {
    let Some(best) = side.best() else { return Vec::new() };
    let time = best.wall.map_or(f64::NAN, |wall| wall.median);
    let level = match side.level {
        0 => String::new(),
        1 => "; 1 other is not significantly slower".into(),
        others => format!("; {others} others are not significantly slower"),
    };
    let mut out = vec![format!("Best fixed point: {}, {}{level}.", best.name, contest::time(time))];
    if let Some(reached) = side.reached {
        let percent = |share: f64| format!("{:.0}", share * 100.0);
        let verdict = match reached.difference.verdict {
            haul_bench::stats::Verdict::NotSignificant => "; not significant",
            _ => "",
        };
        let bounds = match side.lines.iter().filter(|line| line.wall.is_some()).map(|line| line.right).min() {
            Some(0 | 1) | None => " (measured once: that shows little)".to_string(),
            Some(_) => format!(" (between {} and {} %{verdict})", percent(reached.interval.0), percent(reached.interval.1)),
        };
        out.push(format!("haul's own choice reaches {} % of its speed{bounds}.", percent(reached.share)));
    }
    out
}

fn document(held: &Held, sides: &[Side]) -> Value {
    let line = |line: &Line| {
        json!({
            "name": line.name,
            "own_choice": line.own,
            "factors": line.factors,
            "wall": line.wall.as_ref().map(contest::summary_json),
            "bytes_per_second": line.rate,
            "files_per_second": line.files_rate,
            "copies_right": line.right,
            "troubles": contest::troubles_json(&line.troubles),
        })
    };
    let side = |side: &Side| {
        json!({
            "direction": (!side.direction.is_empty()).then_some(&side.direction),
            "points": side.lines.iter().map(line).collect::<Vec<_>>(),
            "not_significantly_slower": side.level,
            "best": side.best().map(|best| &best.name),
            "own_choice_reaches": side.reached.map(|reached| json!({
                "share": reached.share,
                "interval": [reached.interval.0, reached.interval.1],
                "time": contest::difference_json(&reached.difference),
            })),
        })
    };
    json!({
        "event": "bench-sweep",
        "version": JSON_VERSION,
        "time": format!("{:.3}", jiff::Timestamp::now()),
        "run": show(held.run.dir().as_os_str().as_bytes()),
        "complete": !held.stopped,
        "seed": held.run.header.settings.get("seed"),
        "files": held.source.files,
        "bytes": held.source.bytes,
        "sides": sides.iter().map(side).collect::<Vec<_>>(),
    })
}
