//! `haul bench compare`.

use haul_stores::provider::Provider as _;
use haul_stores::s3;
use haul_stores::ssh::SshProvider;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_bench::compare::{BUILT_IN, Route, Row, Tool, Words, ranking, table, words};
use haul_bench::contest::Contender;
use haul_bench::process::Group;
use haul_bench::record::{self, Kind};
use haul_core::cancel::Cancel;
use haul_core::error::{Error, ErrorKind, Result};
use serde_json::{Value, json};

use super::contest::columns::{self, Column};
use super::contest::{self, Asked, From, Ground, Held, Keeping, Page, reach};
use crate::exit::Exit;
use crate::flags::Global;
use crate::flags::bench::CompareFlags;
use crate::flags::connect::Connect;
use crate::hosts::Hosts;
use crate::location::Location;
use crate::render::{JSON_VERSION, command_line};
use crate::{out, units};

/// What tools that must be told do at once, at least and at most, where nobody says.
const THREADS: (u32, u32) = (4, 16);

pub fn run(flags: &CompareFlags, global: &Global) -> Exit {
    let done = match &flags.places {
        None => print_table(flags.table.as_deref()),
        Some((source, destination)) => compare(flags, source, destination, global),
    };
    done.unwrap_or_else(|e| out::error(&e))
}

fn print_table(file: Option<&Path>) -> Result<Exit> {
    let mut text = BUILT_IN.as_bytes().to_vec();
    if let Some(file) = file {
        tools(Some(file))?;
        text.extend_from_slice(format!("\n# From {}:\n\n", haul_core::entry::show(file.as_os_str().as_bytes())).as_bytes());
        text.extend(std::fs::read(file).map_err(|e| Error::io(e, "read").at(file.as_os_str().as_bytes()))?);
    }
    out::print(&text).map_err(|e| Error::io(e, "write"))?;
    Ok(Exit::Success)
}

/// The built-in tools, and those of a file.
fn tools(file: Option<&Path>) -> Result<Vec<Tool>> {
    let built_in = table::parse(BUILT_IN, &[])?;
    let Some(file) = file else { return Ok(built_in) };
    let shown = file.as_os_str().as_bytes();
    let text = std::fs::read_to_string(file).map_err(|e| Error::io(e, "read the table").at(shown))?;
    table::parse(&text, &built_in).map_err(|e| e.at(shown).hint("`haul bench compare --print-table` shows how one is written"))
}

fn compare(flags: &CompareFlags, source: &Location, destination: &Location, global: &Global) -> Result<Exit> {
    contest::one_here(source, destination)?;
    for place in [source, destination] {
        if place.scheme.keys && place.user.is_some() {
            let e = Error::new(ErrorKind::Usage, "begin").at(&place.to_bytes()).because("the other tools know no profile in an address");
            return Err(e.hint("name it by --profile"));
        }
    }
    let tools = tools(flags.table.as_deref())?;
    let chosen = chosen(&flags.tools, &tools)?;
    let cancel = Cancel::default();
    let group = contest::listen(&cancel);
    let known: Vec<String> = chosen.iter().map(|tool| tool.name.clone()).collect();
    let keeping = Keeping::of(&flags.contest, global, Kind::Compare, &known, &[]);
    let connect = &flags.contest.connect;
    let hosts = Hosts::new(connect);
    let from = From::open(source, &hosts)?;
    keeping.apart(&from, &flags.contest)?;
    let ground = Ground::open(destination, &hosts, &from, 0, &keeping.own)?;
    let task = Task {
        route: route(source, destination),
        from: &from,
        ground: &ground,
        connect,
        keeping: &keeping,
        threads: flags.threads.unwrap_or_else(|| {
            let processors = std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX));
            processors.clamp(THREADS.0, THREADS.1)
        }),
    };
    let line_up = task.line_up(&chosen, !flags.tools.is_empty(), &cancel, &group)?;
    if !global.quiet && !line_up.left_out.is_empty() {
        let words = format!("not found here, so not in it: {}", line_up.left_out.join(", "));
        contest::folded(&words).iter().for_each(|line| out::say_plainly(line));
    }
    let names: Vec<String> = line_up.contenders.iter().map(|contender| contender.name.clone()).collect();
    let templates = chosen.iter().filter(|tool| names.contains(&tool.name));
    let templates: serde_json::Map<String, Value> =
        templates.map(|tool| (tool.name.clone(), tool.template(task.route, from.is_dir).into())).collect();
    let asked = Asked {
        kind: Kind::Compare,
        flags: &flags.contest,
        global,
        keeping: &keeping,
        from: &from,
        grounds: &[&ground],
        contenders: &line_up.contenders,
        tools: line_up.programs,
        settings: extrapolated(flags)
            .into_iter()
            .chain([
                ("tools".to_string(), names.clone().into()),
                ("commands".to_string(), Value::Object(templates)),
                ("threads".to_string(), task.threads.into()),
            ])
            .collect(),
        cancel: &cancel,
        group: &group,
    };
    let held = asked.hold()?;
    let rows = ranking::rank(&names, &held.run.samples);
    show(flags, global, &held, &rows).map_err(|e| Error::io(e, "write"))?;
    Ok(match (held.stopped, rows.iter().any(|row| row.ranked)) {
        (true, _) => Exit::Signal,
        (false, true) => Exit::Success,
        (false, false) => Exit::Partial,
    })
}

/// What the page needs to show what `--extrapolate` asks for.
fn extrapolated(flags: &CompareFlags) -> Vec<(String, Value)> {
    let Some((text, bytes)) = &flags.extrapolate else { return Vec::new() };
    vec![("extrapolate".to_string(), text.as_str().into()), ("extrapolate_bytes".to_string(), (*bytes).into())]
}

/// The tools that were named, in that order; all where none was. Errors: `Usage` for a name that the table does not have.
fn chosen<'t>(names: &[String], tools: &'t [Tool]) -> Result<Vec<&'t Tool>> {
    if names.is_empty() {
        return Ok(tools.iter().collect());
    }
    let known = || tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>().join(", ");
    let find = |name: &String| {
        tools.iter().find(|tool| tool.name == *name).ok_or_else(|| {
            let e = Error::new(ErrorKind::Usage, "choose tools").at(name.as_bytes()).because("there is no such tool in the table");
            e.hint(format!("there are {}; --table FILE adds others", known()))
        })
    };
    names.iter().map(find).collect()
}

fn route(source: &Location, destination: &Location) -> Route {
    match () {
        () if source.scheme.keys => Route::S3Local,
        () if destination.scheme.keys => Route::LocalS3,
        _ if source.is_remote() => Route::HostLocal,
        _ if destination.is_remote() => Route::LocalHost,
        _ => Route::LocalLocal,
    }
}

/// What every tool is to do.
struct Task<'a> {
    route: Route,
    from: &'a From,
    ground: &'a Ground<'a>,
    connect: &'a Connect,
    keeping: &'a Keeping,
    threads: u32,
}

struct LineUp<'a> {
    contenders: Vec<Contender<'a>>,
    programs: Vec<record::Tool>,
    /// They fit and are not here.
    left_out: Vec<String>,
}

impl Task<'_> {
    /// Those that fit and are here; with `all` also those that do not or are not, to be shown as such.
    fn line_up<'a>(&'a self, chosen: &[&'a Tool], all: bool, cancel: &Cancel, group: &Group) -> Result<LineUp<'a>> {
        let is_dir = self.from.is_dir;
        let mut line_up = LineUp { contenders: Vec::new(), programs: Vec::new(), left_out: Vec::new() };
        // What holds for every copy is told now, not as a failure of each.
        let words = self.words("x-1")?;
        for &tool in chosen {
            let missing = tool
                .programs(self.route, is_dir)
                .into_iter()
                .find(|program| !program.starts_with('{') && contest::found(program).is_none());
            let what = if is_dir { "a directory" } else { "a single file" };
            let absent = match missing {
                _ if !tool.goes(self.route, is_dir) => Some(format!("the table has no {} command for {what}", self.route.word())),
                Some(program) => Some(format!("no program {program} is found here")),
                None => tool.call(self.route, is_dir, &words).err().map(|e| e.reason()),
            };
            if absent.is_some() && !all {
                if tool.goes(self.route, is_dir) {
                    line_up.left_out.push(tool.name.clone());
                }
                continue;
            }
            if absent.is_none() {
                line_up.programs.push(self.program(tool, &words, cancel, group));
            }
            let prepare = move |fresh: &str| {
                let mut call = tool.call(self.route, is_dir, &self.words(fresh)?)?;
                call.env.extend(self.env());
                Ok(call)
            };
            line_up.contenders.push(Contender {
                name: tool.name.clone(),
                factors: [].into(),
                ground: 0,
                prepare: Box::new(prepare),
                absent,
            });
        }
        if line_up.contenders.is_empty() {
            let e = Error::new(ErrorKind::Usage, "choose tools").because(format!("no tool is here that goes {}", self.route.word()));
            return Err(e.hint("--print-table shows the tools that are known, --table FILE adds others"));
        }
        Ok(line_up)
    }

    fn env(&self) -> Vec<(OsString, OsString)> {
        let mut env = self.keeping.env();
        if let Some(profile) = &self.connect.get::<s3::Flags>().profile {
            env.push(("AWS_PROFILE".into(), profile.into()));
        }
        if let Some(region) = reach::region(self.connect) {
            env.push(("AWS_REGION".into(), region.into()));
        }
        env
    }

    fn program(&self, tool: &Tool, words: &Words, cancel: &Cancel, group: &Group) -> record::Tool {
        let programs = tool.programs(self.route, self.from.is_dir);
        let path = programs.first().and_then(|program| contest::found(program));
        let path = path.or_else(|| std::env::current_exe().ok()).unwrap_or_default();
        let argv = words::fill(tool.version(), words).unwrap_or_default();
        let version = if argv.is_empty() { None } else { contest::version(&argv, cancel, group) };
        record::Tool { name: tool.name.clone(), path: haul_core::entry::show(path.as_os_str().as_bytes()), version }
    }

    /// What the table's words stand for, for a copy into the fresh directory of this name.
    fn words(&self, fresh: &str) -> Result<Words> {
        let mut words = Words::default();
        let (source, target) = (&self.from.location, self.ground.at(fresh));
        let bytes = |bytes: &[u8]| OsStr::from_bytes(bytes).to_os_string();
        let (above, _) = haul_core::place::host::split(&source.path);
        words.one("src", bytes(&source.path));
        words.one("parent", bytes(above));
        words.one("name", bytes(&self.from.name));
        words.one("dst", bytes(&target.path));
        words.one("copy", bytes(&[&target.path[..], b"/", &self.from.name].concat()));
        let bare = Location { trailing_slash: false, ..source.clone() };
        words.one("from", bytes(&bare.to_bytes()));
        words.one("to", bytes(&Location { trailing_slash: true, ..target.clone() }.to_bytes()));
        words.one("threads", self.threads.to_string());
        words.one("haul", std::env::current_exe().map_err(|e| Error::io(e, "find this program"))?);
        let other = if source.is_remote() { source } else { &target };
        let ssh_options = reach::ssh_options(self.connect, other);
        words.one("ssh", words::for_rsync(&[reach::ssh(self.connect), ssh_options.clone()].concat()));
        words.many("ssh_options", ssh_options);
        words.many("haul_options", reach::haul_options(self.connect));
        for name in ["login", "target", "bucket", "key", "endpoint", "endpoint_host", "no_ssl", "region"] {
            words.absent(name);
        }
        match () {
            () if SshProvider.schemes().contains(&other.scheme) => {
                let (login, bracketed) = reach::login(other)?;
                words.one("login", login);
                words.one("target", bracketed);
            }
            () if other.scheme.keys => {
                words.one("bucket", other.host.clone().unwrap_or_default());
                words.one("key", bytes(&other.path));
                if let Some(url) = reach::endpoint(self.connect) {
                    let (scheme, rest) = url.split_once("://").unwrap_or(("https", &url));
                    words.one("endpoint_host", rest.trim_end_matches('/'));
                    if scheme.eq_ignore_ascii_case("http") {
                        words.one("no_ssl", "--no-ssl");
                    }
                    words.one("endpoint", url.clone());
                }
                if let Some(region) = reach::region(self.connect) {
                    words.one("region", region);
                }
            }
            _ => {}
        }
        Ok(words)
    }
}

fn show(flags: &CompareFlags, global: &Global, held: &Held, rows: &[Row]) -> std::io::Result<()> {
    let mut page = Page::new(global);
    page.gap();
    let first = rows.iter().find(|row| row.ranked && row.against.is_none()).map(|row| row.name.clone()).unwrap_or_default();
    page.lines(columns::table(&table_of(flags, rows, &first), columns::width()));
    let troubled: Vec<&Row> = rows.iter().filter(|row| !row.troubles.is_empty()).collect();
    if !troubled.is_empty() {
        page.gap();
    }
    for row in troubled {
        for (outcome, reason) in &row.troubles {
            page.say(&format!("{}: {}: {reason}", row.name, outcome.words()));
        }
    }
    page.gap();
    for line in explanation(flags, rows, &first) {
        page.say(&line);
    }
    page.say(&contest::about_caches(&held.run));
    page.gap();
    page.say("Run as:");
    for row in rows {
        if let Some(sample) = held.run.samples.iter().find(|s| s.contender == row.name && !s.command.is_empty()) {
            page.lines(contest::folded(&format!("  {}: {}", row.name, shell_like(&sample.command))));
        }
    }
    if held.stopped {
        contest::how_to_go_on(&mut page, held.run.dir(), &flags.contest);
    }
    page.print()?;
    if global.json {
        let text = document(flags, held, rows).to_string();
        out::print(format!("{text}\n").as_bytes())?;
    }
    Ok(())
}

/// As a person would type it.
fn shell_like(command: &[String]) -> String {
    let word = |word: &String| match word.as_str() {
        "|" => word.clone(),
        input if input.starts_with("<<< ") => input.to_string(),
        word => command_line(std::iter::once(word.as_bytes())),
    };
    command.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn table_of(flags: &CompareFlags, rows: &[Row], first: &str) -> Vec<Column> {
    let cells = |of: &dyn Fn(&Row) -> Option<String>| rows.iter().map(|row| contest::or_dash(of(row))).collect::<Vec<_>>();
    let ranked = |of: &dyn Fn(&Row) -> String| cells(&|row| row.ranked.then(|| of(row)));
    let mut columns = vec![
        Column::left("tool", rows.iter().map(|row| row.name.clone()).collect()),
        Column::right("time", cells(&|row| row.wall.map(|wall| contest::time(wall.median)))),
        Column::left("between", cells(&|row| row.wall.as_ref().map(contest::interval))),
        Column::right("rate", ranked(&|row| contest::rate(row.rate, row.files_rate))),
        Column::left(
            &if first.is_empty() { "ratio".into() } else { format!("to {first}") },
            cells(&|row| row.against.as_ref().map(contest::ratio)),
        ),
        Column::left("copies", rows.iter().map(copies).collect()),
        Column::right("CPU", ranked(&|row| contest::time(row.user + row.system))),
        Column::right("memory", ranked(&memory)),
    ];
    if let Some((text, bytes)) = flags.extrapolate.clone() {
        let head = format!("{text} takes");
        let long = |row: &Row| ranking::extrapolate(row.rate, bytes).map(contest::time);
        columns.push(Column::right(&head, cells(&|row| long(row).filter(|_| row.ranked))));
    }
    columns.push(Column::left("also preserved", cells(&|row| Some(row.kept.clone()).filter(|kept| !kept.is_empty()))));
    columns
}

fn memory(row: &Row) -> String {
    match (row.peak, row.peak_below) {
        (Some(peak), _) => units::bytes(peak),
        (None, Some(below)) => format!("< {}", units::bytes(below)),
        (None, None) => "-".into(),
    }
}

/// `5 right`, `WRONG 2 of 5`, `missing`.
fn copies(row: &Row) -> String {
    let wrong = row.made - row.right;
    match row.troubles.first() {
        _ if wrong > 0 => format!("WRONG {wrong} of {}", row.made),
        Some((outcome, _)) if row.right == 0 => outcome.words().to_string(),
        Some((outcome, _)) => format!("{} right, {}", row.right, outcome.words()),
        None => format!("{} right", row.right),
    }
}

fn explanation(flags: &CompareFlags, rows: &[Row], first: &str) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(about_times(rows));
    if rows.iter().any(|row| row.against.is_some()) {
        lines.push(format!("to {first}: its time as a multiple of {first}'s; not significant: the difference may be chance."));
    }
    if rows.iter().any(|row| row.against.is_some_and(|d| d.verdict == haul_bench::stats::Verdict::NotSignificant))
        && flags.contest.repeat < 4
    {
        lines.push("Fewer than 4 repetitions cannot show a difference; --repeat 5 can.".to_string());
    }
    lines.push(format!("{}. also preserved: attributes that are those of the source.", contest::COMPARED));
    if let Some((text, _)) = &flags.extrapolate {
        lines.push(format!("The time for {text} assumes constant throughput, with data like these."));
    }
    lines
}

/// Of how many copies the medians are. Those of a tool that failed now and then are of fewer, and so less sure.
fn about_times(rows: &[Row]) -> Option<String> {
    let timed: Vec<(&Row, haul_bench::stats::Summary)> = rows.iter().filter_map(|row| Some((row, row.wall?))).collect();
    let (_, first) = timed.first()?;
    let sure = |wall: &haul_bench::stats::Summary| format!("{:.1} %", (wall.coverage * 1000.0).floor() / 10.0);
    let failed = timed.iter().any(|(row, _)| !row.troubles.is_empty());
    let well = if failed { " of those that went well" } else { "" };
    const CPU: &str = "CPU: processor time, in user mode and in the kernel.";
    if timed.iter().all(|(_, wall)| wall.count == first.count) {
        let sure = sure(first);
        let bounds = format!("; between: where the true median lies with {sure} confidence");
        let bounds = if first.count > 1 { bounds } else { String::new() };
        return (first.count > 1 || failed).then(|| format!("time: median of {}{well}{bounds}. {CPU}", first.count));
    }
    let each: Vec<String> = timed
        .iter()
        .map(|(row, wall)| match wall.count {
            1 => format!("{} 1", row.name),
            count => format!("{} {count} ({})", row.name, sure(wall)),
        })
        .collect();
    Some(format!(
        "time: median{well}, which are not equally many; between: where the true median lies with the confidence that is named: {}. {CPU}",
        each.join(", ")
    ))
}

fn document(flags: &CompareFlags, held: &Held, rows: &[Row]) -> Value {
    let row = |row: &Row| {
        json!({
            "tool": row.name,
            "ranked": row.ranked,
            "wall": row.wall.as_ref().map(contest::summary_json),
            "user_seconds": row.ranked.then_some(row.user),
            "system_seconds": row.ranked.then_some(row.system),
            "peak_bytes": row.peak,
            "peak_below_bytes": row.peak_below,
            "bytes_per_second": row.rate,
            "files_per_second": row.files_rate,
            "against_first": row.against.as_ref().map(contest::difference_json),
            "extrapolated_seconds": flags.extrapolate.as_ref().and_then(|(_, bytes)| ranking::extrapolate(row.rate, *bytes)),
            "copies_made": row.made,
            "copies_right": row.right,
            "came_along": row.kept,
            "troubles": contest::troubles_json(&row.troubles),
        })
    };
    json!({
        "event": "bench-compare",
        "version": JSON_VERSION,
        "time": format!("{:.3}", jiff::Timestamp::now()),
        "run": haul_core::entry::show(held.run.dir().as_os_str().as_bytes()),
        "complete": !held.stopped,
        "seed": held.run.header.settings.get("seed"),
        "files": held.source.files,
        "bytes": held.source.bytes,
        "tools": rows.iter().map(row).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use haul_bench::record::{Outcome, Sample};

    use super::*;

    fn said(outcomes: &[(&str, Outcome)]) -> Option<String> {
        let sample = |(at, (name, outcome)): (usize, &(&str, Outcome))| Sample {
            contender: (*name).into(),
            repetition: 1 + at as u32,
            outcome: *outcome,
            seconds: Some(1.0 + at as f64),
            ..Sample::default()
        };
        let samples: Vec<Sample> = outcomes.iter().enumerate().map(sample).collect();
        about_times(&ranking::rank(&["a".to_string(), "b".to_string()], &samples))
    }

    #[test]
    fn a_median_says_of_how_many_it_is() {
        use Outcome::{Failed, Ok};
        let all = said(&[("a", Ok), ("a", Ok), ("b", Ok), ("b", Ok)]).expect("a sentence");
        assert!(all.starts_with("time: median of 2; between: where the true median lies with 50.0 % confidence."), "{all}");
        let fewer = said(&[("a", Ok), ("a", Ok), ("a", Ok), ("b", Ok), ("b", Failed), ("b", Ok)]).expect("a sentence");
        assert!(fewer.contains("median of those that went well, which are not equally many"), "{fewer}");
        assert!(fewer.contains("a 3 (75.0 %), b 2 (50.0 %)"), "{fewer}");
        let one = said(&[("a", Failed), ("a", Ok)]).expect("a sentence");
        assert!(one.starts_with("time: median of 1 of those that went well. CPU"), "{one}");
        assert_eq!((said(&[("a", Ok)]), said(&[("a", Failed)])), (None, None));
    }
}
