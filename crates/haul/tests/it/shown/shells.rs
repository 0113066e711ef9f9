//! Completions in the shells themselves: bash, zsh and fish.

use std::path::Path;
use std::process::{Command, Stdio};

/// A home with hosts, a profile, a job that is not finished and one that is, and some files.
fn home() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let write = |path: &str, text: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        std::fs::write(path, text).expect("written");
    };
    write(".ssh/config", "Host cluster login\nHost *.org\n");
    write("other.conf", "Host clock\n");
    write(".aws/config", "[profile lab]\nregion = x\n");
    let jobs = ".local/state/haul/jobs";
    write(&format!("{jobs}/0123456789abcdef/job"), "source /a\ntarget s3://runs/x\ncommand c\n");
    write(&format!("{jobs}/0123456789abcdef/journal"), "");
    write(&format!("{jobs}/fedcba9876543210/record"), "source s3://old/x/\ntarget /b\n\nfiles 1\n");
    for name in ["w/clue file", "w/cludir/x", "w/zzz"] {
        write(name, "");
    }
    std::fs::create_dir(dir.path().join("bin")).expect("made");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_haul"), dir.path().join("bin/haul")).expect("linked");
    dir
}

fn command(home: &Path, program: &str) -> Command {
    // A shell that waits for what never comes is ended.
    let mut command = Command::new("timeout");
    command.arg("60").arg(program).current_dir(home.join("w")).env_clear().env("HOME", home).stdin(Stdio::null());
    command.env("PATH", format!("{}/bin:/usr/sbin:/usr/bin:/sbin:/bin", home.display())).env("LC_ALL", "C.UTF-8").env("TERM", "dumb");
    command
}

fn output(mut command: Command) -> String {
    let done = command.output().expect("it starts");
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{command:?}: {text}{}", String::from_utf8_lossy(&done.stderr));
    text
}

/// What `haul complete` offers behind a line.
fn offers(home: &Path, line: &str) -> Vec<String> {
    let (before, current) = line.rsplit_once(' ').unwrap_or(("", line));
    let mut asked = command(home, "haul");
    asked.args(["complete", "--", current]).args(before.split_whitespace());
    output(asked).lines().map(|line| line.split('\t').next().unwrap_or_default().to_string()).collect()
}

#[test]
fn hosts_buckets_profiles_and_jobs_are_offered_where_they_are_meant() {
    let home = home();
    for (line, expected) in [
        ("ls clu", &["cluster:"][..]),
        ("cp a me@l", &["me@login:"]),
        ("ls ssh://c", &["ssh://cluster/"]),
        ("ls -F ../other.conf cl", &["clock:"]),
        ("ls --ssh-config=../other.conf cl", &["clock:"]),
        ("ls dir/cl", &[]),
        ("sync s3://r", &["s3://runs/"]),
        ("mb s3", &["s3://lab@", "s3://old/", "s3://runs/"]),
        ("ls --profile ", &["lab"]),
        ("ls -J l", &["login"]),
        ("ls --log c", &[]),
        ("doctor c", &["cluster"]),
        ("bench net c", &["cluster"]),
        ("chmod c", &[]),
        ("chmod 644 c", &["cluster:"]),
        ("jobs show ", &["0123456789abcdef", "fedcba9876543210"]),
        ("jobs clean -n f", &["fedcba9876543210"]),
        ("jobs resume ", &["0123456789abcdef"]),
        ("jobs ", &[]),
        ("why 0", &["0123456789abcdef"]),
        ("c", &[]),
    ] {
        assert_eq!(offers(home.path(), line), expected, "{line}");
    }
    // It makes nothing, and needs nothing.
    let empty = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(empty.path().join("w")).expect("made");
    let mut bare = command(empty.path(), env!("CARGO_BIN_EXE_haul"));
    bare.args(["complete", "--", "", "jobs", "show"]);
    assert_eq!(output(bare), "");
    assert!(!empty.path().join(".local").exists());
}

#[test]
fn bash_completes_them_beside_files_and_options() {
    const ASK: &str = r#"
source <(haul completions bash)
ask() {
    COMP_LINE="$1"; COMP_POINT=${#1}
    read -ra COMP_WORDS <<< "${1//:/ : }"
    [[ $1 == *' ' ]] && COMP_WORDS+=('')
    COMP_CWORD=$((${#COMP_WORDS[@]}-1)); COMPREPLY=()
    _haul_words haul "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}" 2>/dev/null
    echo "${COMPREPLY[*]}"
}
complete -p haul >/dev/null || exit 1
while read -r line; do ask "${line%|}"; done
"#;
    let home = home();
    std::fs::write(home.path().join("script"), ASK).expect("written");
    let cases = [
        ("haul ls clu", "cluster: clue\\ file cludir/"),
        ("haul ls s3://r", "//runs/"),
        ("haul jobs resume |", "0123456789abcdef"),
        ("haul ls --prof", "--profile"),
        ("haul ls --profile l", "lab"),
        ("haul jo", "jobs"),
        ("haul doctor l", "login"),
    ];
    std::fs::write(home.path().join("lines"), cases.map(|(line, _)| format!("{line}\n")).concat()).expect("written");
    let mut bash = command(home.path(), "bash");
    bash.arg("../script").stdin(std::fs::File::open(home.path().join("lines")).expect("there"));
    let said = output(bash);
    let sorted = |text: &str| {
        let mut words: Vec<String> = text.split(' ').map(str::to_string).collect();
        words.sort();
        words
    };
    for ((line, expected), said) in cases.iter().zip(said.lines()) {
        assert_eq!(sorted(said), sorted(expected), "{line}");
    }
    assert_eq!(said.lines().count(), cases.len(), "{said}");
}

#[test]
fn fish_completes_them() {
    let home = home();
    for (line, expected) in [
        ("haul ls clu", &["cludir/", "clue file", "cluster:"][..]),
        ("haul ls s3://ru", &["s3://runs/"]),
        ("haul jobs resume ", &["0123456789abcdef"]),
        ("haul doctor l", &["login"]),
        ("haul ls --profile l", &["lab"]),
    ] {
        let mut fish = command(home.path(), "fish");
        fish.args(["--no-config", "-c", &format!("haul completions fish | source; complete -C '{line}'")]);
        let said = output(fish);
        let words: Vec<&str> = said.lines().filter_map(|line| line.split('\t').next()).collect();
        // It finds files whose names only hold the letters, too.
        for word in expected {
            assert!(words.contains(word), "{line}: {said}");
        }
    }
}

/// In a terminal of its own, key by key: it waits for what is to appear.
#[test]
fn zsh_completes_them() {
    const ASK: &str = r#"
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z 'PS1=; fpath=('$1' $fpath); autoload -U compinit; compinit -u -D; LISTMAX=1000; setopt no_beep; echo READ""Y'
zpty -r z line '*READY*'
ask() {
    zpty -w -n z "$1"$'\t'
    zpty -r z line "*$2*" || exit 1
    zpty -w -n z $'\x15'"echo EN''D"$'\n'
    zpty -r z line '*END*'
}
ask 'haul ls clus' 'haul ls cluster:'
ask 'haul ls clu' 'clue\\ file*'
ask 'haul ls s3://ru' 'haul ls s3://runs/'
ask 'haul jobs show ' 'fedcba9876543210  -- finished: s3://old/x/ -> /b*'
ask 'haul jobs resume 0' 'haul jobs resume 0123456789abcdef'
ask 'true && haul -v cp me@l' 'haul -v cp me@login:'
ask 'haul ls --profile l' 'haul ls --profile lab'
zpty -d z
echo all
"#;
    let home = home();
    let functions = home.path().join("functions");
    std::fs::create_dir(&functions).expect("made");
    let mut made = command(home.path(), "haul");
    made.args(["completions", "zsh"]);
    std::fs::write(functions.join("_haul"), output(made)).expect("written");
    std::fs::write(home.path().join("script"), ASK).expect("written");
    let mut zsh = command(home.path(), "zsh");
    zsh.arg("-f").arg("../script").arg(&functions);
    assert_eq!(output(zsh).lines().last(), Some("all"));
}
