//! The table of tools: names, and a command for each route. A line format that a person can write.

use haul_core::error::{Error, ErrorKind, Result};

use super::words::{Words, fill, fill_text};
use crate::comparison::Call;

pub const BUILT_IN: &str = include_str!("tools.conf");

/// From where to where.
pub const ROUTES: &str = "local-local local-host host-local local-s3 s3-local local-ftp ftp-local local-ftps ftps-local \
                          local-gridftp gridftp-local http-local";

/// What a line is for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Case {
    route: String,
    /// Only for a directory, or only for one file.
    dir: Option<bool>,
}

impl Case {
    fn parse(text: &str) -> Option<Case> {
        let (word, kind) = text.split_once('.').map_or((text, None), |(word, kind)| (word, Some(kind)));
        let dir = match kind {
            None => None,
            Some("dir") => Some(true),
            Some("file") => Some(false),
            Some(_) => return None,
        };
        ROUTES.split(' ').any(|route| route == word).then(|| Case { route: word.to_string(), dir })
    }

    fn fits(&self, route: &str, is_dir: bool) -> bool {
        self.route == route && self.dir.is_none_or(|dir| dir == is_dir)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tool {
    pub name: String,
    version: Vec<String>,
    needs: Vec<String>,
    env: Vec<(String, String)>,
    commands: Vec<(Case, Vec<Vec<String>>)>,
    inputs: Vec<(Case, String)>,
}

impl Tool {
    /// The command that prints its version; empty where there is none.
    pub fn version(&self) -> &[String] {
        &self.version
    }

    /// Whether it has a command for this at all.
    pub fn goes(&self, route: &str, is_dir: bool) -> bool {
        self.stages(route, is_dir).is_some()
    }

    fn stages(&self, route: &str, is_dir: bool) -> Option<&Vec<Vec<String>>> {
        self.commands.iter().find(|(case, _)| case.fits(route, is_dir)).map(|(_, stages)| stages)
    }

    /// The programs that must be on this machine, as they are written: those that begin its commands, then those that these
    /// start in turn.
    pub fn programs(&self, route: &str, is_dir: bool) -> Vec<&str> {
        let first = self.stages(route, is_dir).into_iter().flatten().filter_map(|stage| stage.first());
        first.chain(&self.needs).map(String::as_str).collect()
    }

    pub fn template(&self, route: &str, is_dir: bool) -> String {
        let stages = self.stages(route, is_dir).into_iter().flatten();
        stages.map(|stage| stage.join(" ")).collect::<Vec<_>>().join(" | ")
    }

    /// Its command for one copy. Errors: `Usage` where there is none, or a name cannot be put into it.
    pub fn call(&self, route: &str, is_dir: bool, words: &Words) -> Result<Call> {
        let refuse = |reason: String| Error::new(ErrorKind::Usage, "make a command").at(self.name.as_bytes()).because(reason);
        let stages = self.stages(route, is_dir).ok_or_else(|| refuse(format!("has no command for {}", route)))?;
        let stages = stages.iter().map(|stage| fill(stage, words)).collect::<Result<_, _>>().map_err(refuse)?;
        let input = self.inputs.iter().find(|(case, _)| case.fits(route, is_dir));
        let input = input.map(|(_, text)| fill_text(text, words)).transpose().map_err(refuse)?;
        let mut env = Vec::new();
        for (name, value) in &self.env {
            for value in fill(std::slice::from_ref(value), words).map_err(refuse)? {
                env.push((name.into(), value));
            }
        }
        Ok(Call { stages, input, env })
    }
}

/// Reads a table; its tools take the place of those of `base` with the same names, and others come behind them. Errors:
/// `Usage`, with the line.
pub fn parse(text: &str, base: &[Tool]) -> Result<Vec<Tool>> {
    let mut tools = base.to_vec();
    let mut found: Vec<Tool> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let refuse = |reason: String| Error::new(ErrorKind::Usage, "read the table").because(format!("line {}: {reason}", at + 1));
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let name = name.trim();
            let plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
            if name.is_empty() || name.starts_with(['.', '-']) || !name.chars().all(plain) {
                return Err(refuse(format!("'{name}' is not a valid name: use letters, digits and . _ + -")));
            }
            if found.iter().any(|tool| tool.name == name) {
                return Err(refuse(format!("[{name}] is defined twice")));
            }
            found.push(Tool { name: name.to_string(), ..Tool::default() });
            continue;
        }
        let (key, value) = line.split_once('=').ok_or_else(|| refuse("neither [NAME] nor KEY = VALUE".to_string()))?;
        let (key, value) = (key.trim(), value.trim());
        match found.last_mut() {
            Some(tool) => entry(tool, key, value).map_err(refuse)?,
            None if (key, value) == ("builtin", "no") => tools.clear(),
            None => return Err(refuse("a tool begins with [NAME]".to_string())),
        }
    }
    for tool in found {
        match tools.iter_mut().find(|old| old.name == tool.name) {
            Some(old) => *old = tool,
            None => tools.push(tool),
        }
    }
    Ok(tools)
}

fn entry(tool: &mut Tool, key: &str, value: &str) -> Result<(), String> {
    match key {
        "version" => tool.version = split(value)?.into_iter().flatten().collect(),
        "needs" => tool.needs.extend(split(value)?.into_iter().flatten()),
        "env" => {
            let (name, value) = value.split_once('=').ok_or("env is written NAME=VALUE")?;
            tool.env.push((name.to_string(), value.to_string()));
        }
        _ => {
            let (key, is_input) = key.strip_prefix("input ").map_or((key, false), |key| (key.trim(), true));
            let routes = ROUTES.replace(' ', ", ");
            for key in key.split_whitespace() {
                let case = Case::parse(key)
                    .ok_or_else(|| format!("'{key}' is none of version, needs, env, {routes} (with .dir or .file), input ROUTE"))?;
                match is_input {
                    true => tool.inputs.push((case, value.to_string())),
                    false => tool.commands.push((case, split(value)?)),
                }
            }
        }
    }
    Ok(())
}

/// Programs with their words, split as by a shell; a word `|` begins the next program.
fn split(text: &str) -> Result<Vec<Vec<String>>, String> {
    let words = shlex::split(text).ok_or("a quote is not closed")?;
    let stages: Vec<Vec<String>> = words.split(|word| word == "|").map(<[String]>::to_vec).collect();
    if stages.iter().any(Vec::is_empty) { Err("a command is empty".to_string()) } else { Ok(stages) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_table_is_read() {
        let tools = parse(BUILT_IN, &[]).unwrap();
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        for name in ["haul", "cp", "rsync", "scp", "sftp", "tar", "lftp", "fpsync", "dcp", "dsync", "rclone", "s5cmd", "s3cmd", "aws"] {
            assert!(names.contains(&name), "{name}");
        }
        for name in ["mscp", "rcp", "xcp", "globus-url-copy", "curl", "aria2c"] {
            assert!(names.contains(&name), "{name}");
        }
        let tar = &tools[names.iter().position(|name| *name == "tar").unwrap()];
        assert_eq!(tar.programs("local-host", true), ["tar", "ssh"]);
        assert!(!tar.goes("local-s3", true));
        // What a launcher starts is no less needed than the launcher.
        for tool in &tools {
            for word in ["mpirun", "mpiexec", "srun"] {
                let programs = tool.programs("local-local", true);
                assert!(!programs.contains(&word) || programs.contains(&tool.name.as_str()), "{}: {programs:?}", tool.name);
            }
        }
        // Every word in it can be filled in.
        let words = Words::sample();
        for tool in &tools {
            for route in ROUTES.split(' ') {
                for is_dir in [true, false] {
                    if tool.goes(route, is_dir) {
                        tool.call(route, is_dir, &words).unwrap_or_else(|e| panic!("{}: {e}", tool.name));
                    }
                }
            }
        }
    }

    #[test]
    fn a_table_replaces_and_extends() {
        let base = parse("[a]\nlocal-local = a {src}\n[b]\nlocal-local = b {src}\n", &[]).unwrap();
        let both = parse("# mine\n[b]\nlocal-local.dir = b -x \"{src} and more\" {dst}\n[c]\nlocal-host = c\n", &base).unwrap();
        assert_eq!(both.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(both[1].template("local-local", true), "b -x {src} and more {dst}");
        assert!(!both[1].goes("local-local", false));
        let only = parse("builtin = no\n[c]\nlocal-local = c\n", &base).unwrap();
        assert_eq!(only.len(), 1);
    }

    #[test]
    fn mistakes_in_a_table_are_reported_with_their_line() {
        for (text, telling) in [
            ("local-local = cp", "line 1: a tool begins with [NAME]"),
            ("[a]\n[a]\n", "line 2: [a] is defined twice"),
            ("[../a]", "line 1: '../a' is not a valid name"),
            ("[a]\nlocal-moon = cp", "line 2: 'local-moon' is none of"),
            ("[a]\nlocal-local.link = cp", "is none of"),
            ("[a]\nlocal-local = cp |", "a command is empty"),
            ("[a]\nlocal-local = cp \"x", "not closed"),
            ("[a]\nenv = X", "NAME=VALUE"),
            ("[a]\nwhat", "neither"),
        ] {
            let e = parse(text, &[]).unwrap_err();
            assert!(e.kind() == ErrorKind::Usage && e.reason().contains(telling), "{text}: {e}");
        }
    }
}
