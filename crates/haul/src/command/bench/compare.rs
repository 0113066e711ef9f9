//! `haul bench compare`.

use haul_core::place::provider::Provider as _;
use haul_run::hosts::Hosts;
use haul_run::location::Location;
use haul_run::open;
use haul_ssh::ssh::SshProvider;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_bench::compare::{BUILT_IN, Tool, Words, table, words};
use haul_bench::comparison::{Comparison, Contender, prefix};
use haul_bench::process::Group;
use haul_bench::record;
use haul_core::cancel::Cancel;
use haul_core::error::{Error, ErrorKind, Result};
use serde_json::Value;

use super::comparison::{self, Keeping, Origin, PlannedRun, Target, reach};
use crate::exit::Exit;
use crate::flags::Global;
use crate::flags::bench::CompareFlags;
use crate::flags::connect::Connect;
use crate::out;

/// The default of --threads, at least and at most.
const THREADS: (u32, u32) = (4, 16);

pub fn run(flags: &CompareFlags, global: &Global) -> Exit {
    let done = match &flags.places {
        None => print_table(flags.options.table.as_deref()),
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

fn tools(file: Option<&Path>) -> Result<Vec<Tool>> {
    let built_in = table::parse(BUILT_IN, &[])?;
    let Some(file) = file else { return Ok(built_in) };
    let shown = file.as_os_str().as_bytes();
    let text = std::fs::read_to_string(file).map_err(|e| Error::io(e, "read the table").at(shown))?;
    table::parse(&text, &built_in).map_err(|e| e.at(shown).hint("`haul bench compare --print-table` shows how one is written"))
}

fn compare(flags: &CompareFlags, source: &Location, destination: &Location, global: &Global) -> Result<Exit> {
    let CompareFlags { options, connect, connect_words, .. } = flags;
    comparison::one_here(source, destination)?;
    for place in [source, destination] {
        if place.scheme.keys && place.user.is_some() {
            let e = Error::new(ErrorKind::Usage, "begin").at(&place.to_bytes()).because("other tools do not know a profile in an address");
            return Err(e.hint("use --profile"));
        }
    }
    let tools = tools(options.table.as_deref())?;
    let chosen = chosen(&options.tools, &tools)?;
    let cancel = Cancel::default();
    let group = comparison::listen(&cancel)?;
    let keeping = Keeping::of(options, global);
    let hosts = Hosts::new(connect).printing(out::say);
    let from = Origin::open(source, &hosts)?;
    keeping.apart(&from, options)?;
    let target = Target::open(destination, &hosts, &from, &prefix(&keeping.header))?;
    let task = Task {
        route: route(source, destination),
        from: &from,
        target: &target,
        connect,
        connect_words,
        keeping: &keeping,
        threads: options.threads.unwrap_or_else(|| (open::processors() as u32).clamp(THREADS.0, THREADS.1)),
        workers: &options.workers,
    };
    let line_up = task.line_up(&chosen, !options.tools.is_empty(), &cancel, &group)?;
    if !global.quiet && !line_up.left_out.is_empty() {
        out::say_plainly(&format!("not installed: {}", line_up.left_out.join(", ")));
    }
    let names: Vec<String> = line_up.contenders.iter().map(|contender| contender.name.clone()).collect();
    let templates = chosen.iter().filter(|tool| names.contains(&tool.name));
    let templates: serde_json::Map<String, Value> =
        templates.map(|tool| (tool.name.clone(), tool.template(&task.route, from.is_dir).into())).collect();
    let planned = PlannedRun {
        options,
        global,
        keeping: &keeping,
        from: &from,
        target: &target,
        comparison: Comparison {
            contenders: line_up.contenders,
            target: &target,
            from: from.here(),
            repeat: options.repeat,
            warmup: options.warmup,
            seed: keeping.seed,
            limit: options.limit,
            caches: options.caches.sync()?,
            threads: open::processors(),
            cancel: &cancel,
            group: &group,
        },
        tools: line_up.programs,
        settings: [
            ("tools".to_string(), names.into()),
            ("commands".to_string(), Value::Object(templates)),
            ("threads".to_string(), task.threads.into()),
        ]
        .into(),
    };
    planned.run()
}

/// The tools that were named, in that order; all where none was. Errors: `Usage` for a name that the table does not have.
fn chosen<'t>(names: &[String], tools: &'t [Tool]) -> Result<Vec<&'t Tool>> {
    if names.is_empty() {
        return Ok(tools.iter().collect());
    }
    let known = || tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>().join(", ");
    let find = |name: &String| {
        tools.iter().find(|tool| tool.name == *name).ok_or_else(|| {
            let e = Error::new(ErrorKind::Usage, "choose tools").at(name.as_bytes()).because("no such tool in the table");
            e.hint(format!("known tools: {}; --table FILE adds others", known()))
        })
    };
    names.iter().map(find).collect()
}

/// As the table has it: `local-host`.
fn route(source: &Location, destination: &Location) -> String {
    let upload = destination.is_remote();
    let other = if upload { destination } else { source };
    let kind = match other.scheme.0.word {
        _ if other.scheme.keys => "s3",
        word @ ("ftp" | "ftps") => word,
        "gsiftp" | "sshftp" => "gridftp",
        "http" | "https" => "http",
        _ if other.is_remote() => "host",
        _ => "local",
    };
    if upload { format!("local-{kind}") } else { format!("{kind}-local") }
}

struct Task<'a> {
    route: String,
    from: &'a Origin,
    target: &'a Target<'a>,
    connect: &'a Connect,
    connect_words: &'a [OsString],
    keeping: &'a Keeping,
    threads: u32,
    workers: &'a [u32],
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
        // Problems of every copy are reported once, not as a failure of each.
        let words = self.words("x-1", None)?;
        for &tool in chosen {
            let missing = tool
                .programs(&self.route, is_dir)
                .into_iter()
                .find(|program| !program.starts_with('{') && comparison::found(program).is_none());
            let what = if is_dir { "a directory" } else { "a single file" };
            let absent = match missing {
                _ if !tool.goes(&self.route, is_dir) => Some(format!("the table has no {} command for {what}", self.route)),
                Some(program) => Some(format!("the program {program} is not installed")),
                None => tool.call(&self.route, is_dir, &words).err().map(|e| e.reason()),
            };
            if absent.is_some() && !all {
                if tool.goes(&self.route, is_dir) {
                    line_up.left_out.push(tool.name.clone());
                }
                continue;
            }
            if absent.is_none() {
                line_up.programs.push(self.program(tool, &words, cancel, group));
            }
            let fixed: &[u32] = if tool.template(&self.route, is_dir).contains("{workers}") { self.workers } else { &[] };
            for workers in std::iter::once(None).chain(fixed.iter().copied().map(Some)) {
                let name = workers.map_or_else(|| tool.name.clone(), |n| format!("{} -j {n}", tool.name));
                let prepare = move |fresh: &str| {
                    let mut call = tool.call(&self.route, is_dir, &self.words(fresh, workers)?)?;
                    call.env.extend(self.env());
                    Ok(call)
                };
                line_up.contenders.push(Contender { name, prepare: Box::new(prepare), absent: absent.clone() });
            }
        }
        if line_up.contenders.is_empty() {
            let e = Error::new(ErrorKind::Usage, "choose tools").because(format!("no installed tool goes {}", self.route));
            return Err(e.hint("--print-table shows the known tools, --table FILE adds others"));
        }
        Ok(line_up)
    }

    fn env(&self) -> Vec<(OsString, OsString)> {
        let mut env = self.keeping.env();
        if let Some(profile) = &self.connect.get::<haul_s3::Flags>().profile {
            env.push(("AWS_PROFILE".into(), profile.into()));
        }
        if let Some(region) = reach::region(self.connect) {
            env.push(("AWS_REGION".into(), region.into()));
        }
        env
    }

    fn program(&self, tool: &Tool, words: &Words, cancel: &Cancel, group: &Group) -> record::Tool {
        let programs = tool.programs(&self.route, self.from.is_dir);
        let path = programs.first().and_then(|program| comparison::found(program));
        let path = path.or_else(|| std::env::current_exe().ok()).unwrap_or_default();
        let argv = words::fill(tool.version(), words).unwrap_or_default();
        let version = if argv.is_empty() { None } else { comparison::version(&argv, cancel, group) };
        record::Tool { name: tool.name.clone(), path: haul_core::entry::show(path.as_os_str().as_bytes()), version }
    }

    /// The values of the table's placeholders, for a copy into the directory of this name; `None` leaves the number of workers to haul.
    fn words(&self, fresh: &str, workers: Option<u32>) -> Result<Words> {
        let mut words = Words::default();
        let (source, target) = (&self.from.location, self.target.at(fresh));
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
        words.many("workers", workers.map_or_else(Vec::new, |n| vec!["-j".into(), n.to_string().into()]));
        words.one("haul", std::env::current_exe().map_err(|e| Error::io(e, "find this program"))?);
        let other = if source.is_remote() { source } else { &target };
        let ssh_options = reach::ssh_options(self.connect, other);
        words.one("ssh", words::for_rsync(&[reach::ssh(self.connect), ssh_options.clone()].concat()));
        words.many("ssh_options", ssh_options);
        words.many("haul_options", self.connect_words.to_vec());
        for name in ["login", "target", "bucket", "key", "endpoint", "endpoint_host", "no_ssl", "region", "origin"] {
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
            _ if other.is_remote() => words.one("origin", reach::origin(other)),
            _ => {}
        }
        Ok(words)
    }
}
