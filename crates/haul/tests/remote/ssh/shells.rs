//! Accounts as they are set up elsewhere: other login shells, start-up files that print, servers that allow less.

use haul_test::account::Account;
use haul_test::program::until;

use crate::ssh::support::{SAME, World, account};

fn at(account: &Account, path: &str) -> String {
    format!("{}@testhost:{path}", account.name)
}

/// An account whose start-up file has this line, and the words of an upload to it.
fn prints(line: &str) -> (Account, String) {
    let a = account("/bin/bash");
    a.file(".bashrc", &format!("{line}\n")).expect("written");
    let words = format!("cp src/ {}", at(&a, "there"));
    (a, words)
}

/// A server that shows this before a login.
fn with_banner(text: &str) -> World {
    let w = World::served("src: a=5", "Banner ~/banner");
    w.write("banner", text);
    w
}

fn goes_and_comes_back(w: &World, there: &str) {
    w.tree("src: a=5:0640 big=3M d/b=300K d/e/f=3:0755 l->a");
    w.haul(&format!("cp src/ {there}")).ends(0);
    w.haul(&format!("cp {there}/ back")).ends(0);
    w.assert_same("src", "back", SAME);
}

#[test]
#[ignore = "full"]
fn what_a_start_up_file_prints_is_shown_and_ends_the_run() {
    let w = World::new("src: a=5");
    // bash reads its file for a command from the network too.
    for (shell, file) in
        [("/bin/bash", ".bashrc"), ("/bin/tcsh", ".cshrc"), ("/bin/tcsh", ".tcshrc"), ("/usr/bin/fish", ".config/fish/config.fish")]
    {
        let a = account(shell);
        a.file(file, "echo 'Welcome to the cluster!'\n").expect("written");
        for words in [format!("cp src/ {}", at(&a, "there")), format!("cp {} back", at(&a, "there")), format!("ls {}", at(&a, ""))] {
            let err = w.says(10, &words, &["testhost", "Welcome to the cluster!", "login scripts"]);
            assert!(err.lines().count() <= 3, "{shell}: {err}");
        }
        assert!(!a.home().join("there").exists());
    }
}

#[test]
#[ignore = "full"]
fn a_program_named_haul_that_says_nothing_is_named_and_left() {
    let w = World::served("src: a=5 tools/", "SetEnv PATH=~/tools:/usr/bin:/bin");
    w.write("tools/haul", "#!/bin/sh\nexec cat >/dev/null\n");
    w.sh("chmod +x tools/haul");
    let silent = "haul was started there and said nothing within ";
    for words in ["cp src/ testhost:~/there", "ls testhost:~/there"] {
        w.haul(&format!("{words} --timeout 3s")).ends(0).err_has(silent).err_has("--no-agent");
    }
    w.assert_same("src", "there", SAME);
    w.says(30, "ls --timeout 3s --agent haul testhost:~/there", &[silent, "--agent"]);
    w.says(0, "ls --no-agent testhost:~/there", &[]);
    w.haul("doctor --timeout 3s testhost").ends(0).out_has("does not answer");
    // Without a word from the user it is ten seconds, or what a busy machine makes of them.
    let err = w.haul("ls testhost:~/there").ends(0).err_has(silent).err;
    let waited = err.split("said nothing within ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
    assert!(waited.is_some_and(|seconds| (10..60).contains(&seconds)), "{err}");
}

/// What a run finds out of it is for the next one, which is right whatever has changed meanwhile.
#[test]
#[ignore = "full"]
fn haul_that_comes_to_a_host_is_found() {
    for sessions in [10, 1] {
        let lines = format!("SetEnv PATH=~/tools:/usr/bin:/bin\nMaxSessions {sessions}");
        let (w, a) = (World::served("tools: x=1 src: a=5", &lines), account("/bin/bash"));
        w.sh("chmod 755 . tools");
        let known = w.state.join(format!("hosts/{}@testhost=plain", a.name));
        for (there, how) in
            [(false, "over plain SFTP"), (false, "over plain SFTP"), (true, "by haul on the remote host"), (true, "by haul")]
        {
            if there {
                w.sh(&format!("ln -sf {} tools/haul", env!("CARGO_BIN_EXE_haul")));
            }
            w.ends(0, &format!("cp src/ {}", at(&a, "there"))).says(how);
            assert_eq!(known.exists(), !there, "{sessions} sessions, {how}");
        }
    }
}

#[test]
fn what_a_start_up_file_says_on_standard_error_does_no_harm() {
    let (a, _) = prints("echo 'Permission denied to strangers' >&2");
    goes_and_comes_back(&World::new(""), &at(&a, "there"));
}

#[test]
fn what_is_printed_is_reported_though_something_else_complains_too() {
    let (_a, words) = prints("echo 'module: not found' >&2; echo Welcome; echo 'Permission denied' >&2");
    World::new("src: a=5").says(10, &words, &["testhost", "Welcome", "login scripts"]);
}

#[test]
fn one_long_line_without_an_end_is_not_waited_for() {
    let (_a, words) = prints("head -c 3000000 /dev/zero | tr '\\0' x");
    let err = World::new("src: a=5").says(10, &words, &["testhost", "xxxx", "login scripts"]);
    assert!(err.len() < 1000, "{} bytes", err.len());
}

#[test]
fn an_escape_code_in_a_greeting_is_no_code_on_the_screen() {
    let (_a, words) = prints("printf '\\033]0;title\\007hello\\n'");
    let err = World::new("src: a=5").says(10, &words, &["hello"]);
    assert!(!err.contains('\x1b') && !err.contains('\x07'), "{err:?}");
}

#[test]
fn a_banner_of_the_server_does_not_disturb() {
    let w = with_banner("Permission denied to everybody who may not.\nConnection refused is what they get.\n");
    goes_and_comes_back(&w, "testhost:~/there");
    // The words of the banner are not taken for the reason.
    let err = w.says(23, "cp testhost:~/absent dst", &["no such file", "Permission denied to everybody who may not.\n"]);
    let reasons: Vec<&str> = err.lines().filter(|line| line.starts_with("haul: ")).collect();
    assert!(!reasons.is_empty() && !reasons.iter().any(|line| line.contains("Permission denied")), "{err}");
    w.server.write("known_hosts", "");
    w.says(10, "cp src/ testhost:~/x", &["Host key verification failed", "log in once"]);
}

#[test]
fn what_ssh_prints_for_a_person_reaches_standard_error_without_a_terminal() {
    let w = with_banner("This system is monitored.\n");
    let other = World::new("");
    w.server.write("known_hosts", other.server.read("known_hosts").replace(&other.server.port.to_string(), &w.server.port.to_string()));
    let parts = ["This system is monitored.", "REMOTE HOST IDENTIFICATION HAS CHANGED"];
    for words in ["ls testhost:", "doctor testhost:", "cp src/ testhost:~/there", "cp testhost:~/src/ back"] {
        let words = format!("{words} --ssh-option StrictHostKeyChecking=no");
        let err = w.says(0, &words, &parts);
        assert!(!err.contains("debug1") && err.matches(parts[0]).count() == 1, "{err}");
    }
}

/// As ssh does with "Confirm user presence for key" while it waits for the touch of a security key.
#[test]
fn what_ssh_prints_while_it_waits_is_shown_before_the_login_ends() {
    let w = World::new("src: a=5 big=3M");
    let (work, port) = (w.work.display().to_string(), w.server.port);
    let script = format!(
        "#!/bin/bash\necho 'Touch your key now' >&2\nuntil [ -e {work}/touched ]; do sleep 0.02; done\n\
         exec 3<>/dev/tcp/127.0.0.1/{port}\ncat <&3 &\ncat >&3\nkill $!\n"
    );
    w.write("proxy", script);
    w.chmod("proxy", 0o755);
    let config = w.server.read("ssh_config");
    w.server.write("ssh_config", format!("{config}  ProxyCommand {work}/proxy\n"));
    for words in ["cp src/ testhost:~/there", "cp testhost:~/src/ back", "ls testhost:~/src", "doctor testhost"] {
        w.remove("touched");
        // Nobody is at a terminal; what is printed is read while it runs.
        let shown = std::fs::File::create(w.path("shown")).expect("made");
        let mut command = w.haul(words).command();
        let mut run = command.stdout(std::process::Stdio::null()).stderr(shown).spawn().expect("it starts");
        until("the words of ssh", || w.text("shown").contains("Touch your key now\n"));
        assert!(run.try_wait().expect("it is our child").is_none(), "{words}: it waits for the touch");
        w.write("touched", "");
        assert!(run.wait().expect("it ends").success(), "{words}: {}", w.text("shown"));
        assert_eq!(w.text("shown").matches("Touch your key now").count(), 1, "{words}: {}", w.text("shown"));
    }
    for copy in ["there", "back"] {
        w.assert_same("src", copy, SAME);
    }
}

#[test]
#[ignore = "full"]
fn quotes_in_the_command_of_ssh_are_as_in_rsync() {
    let w = World::new("src: a=5 big=3M d/b=300K");
    let config =
        w.server.read("ssh_config").lines().filter(|line| !line.contains("User root")).fold(String::new(), |all, line| all + line + "\n");
    w.write("a place/it's", config);
    let work = w.work.display().to_string();
    let plain = |words: &str, command: &str| w.without_config(words).arg("-e").arg(command.replace('~', &work));
    for (n, command) in [
        "ssh -F '~/a place/it''s' -o \"User=root\"",
        "ssh  -F \"~/a place/it's\" -o 'User root'",
        "/usr/bin/ssh -F ~/a\" place/it's\" -o User=\"root\"",
        "ssh -F \"~/a place/it's\" -l root -o 'SetEnv=WORDS=\"a  b\"'",
    ]
    .into_iter()
    .enumerate()
    {
        plain(&format!("cp src/ testhost:~/there{n}"), command).ends(0);
        w.assert_same("src", format!("there{n}"), SAME);
        plain("ls testhost:~/src", command).ends(0).out_has("big");
    }
    // The user of the first is not that of this machine alone.
    plain("ls testhost:~/src", "ssh -F \"~/a place/it's\" -o 'User=no one'").ends(10);
    plain("ls testhost:~/src", "ssh -o \"User=root").ends(1).err_has("a quote is not closed");
    assert!(!w.has("there"));
}

#[test]
fn a_configuration_that_takes_standard_input_from_sessions_does_no_harm() {
    let w = World::new("");
    w.server.write("ssh_config", w.server.read("ssh_config") + "  StdinNull yes\n");
    goes_and_comes_back(&w, "testhost:~/there");
}

#[test]
fn a_start_up_file_that_reads_standard_input_is_named() {
    let a = account("/bin/bash");
    a.file(".bashrc", "cat >/dev/null\n").expect("written");
    World::new("").says(10, &format!("ls --timeout 1s {}", at(&a, "")), &["a login script may hang", "(.bashrc) reads standard input"]);
}

#[test]
#[ignore = "full"]
fn a_jump_host_that_does_not_resolve_is_named() {
    World::new("").says(10, "ls -J no-such-jump.invalid testhost:", &["no-such-jump.invalid: a jump host (-J"]);
}

#[test]
fn a_refusal_behind_a_banner_is_what_is_said() {
    let w = with_banner("Connection refused is what strangers get.\n");
    w.server.write("authorized_keys", "");
    let ended = w.haul("cp src/ testhost:~/x").ends(10);
    ended.err_has("Permission denied (").err_has("run `ssh` to the same host").err_lacks("--port");
}

#[test]
#[ignore = "full"]
fn a_server_without_sftp_says_so() {
    for lines in ["Subsystem other /bin/true", "Subsystem sftp /nonexistent/sftp-server", "Subsystem sftp /bin/true"] {
        let w = World::served("src: a=5", lines);
        for words in ["cp src/ testhost:~/x", "cp testhost:~/src back", "ls testhost:"] {
            w.says(10, words, &["testhost", "SFTP", "--install-agent installs haul"]);
        }
    }
}

#[test]
fn a_server_that_forces_its_own_sftp_will_do() {
    goes_and_comes_back(&World::served("", "ForceCommand internal-sftp"), "testhost:~/there");
}

#[test]
fn a_user_in_a_cage_has_its_root_for_a_home() {
    // Every directory on the way to it must be root's alone.
    let cage = tempfile::Builder::new().prefix("haul-cage-").tempdir_in("/run").expect("made: root");
    std::fs::set_permissions(cage.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("set");
    let a = account("/bin/bash");
    let inside = cage.path().join("data");
    std::fs::create_dir(&inside).expect("made");
    a.give(&inside).expect("given");
    let shown = cage.path().display().to_string();
    let lines = format!("Match User {}\n  ChrootDirectory {shown}\n  ForceCommand internal-sftp\nMatch all", a.name);
    let w = World::served("src: a=5:0640 big=3M d/b=300K l->a", &lines);
    for words in [format!("cp src/ {}", at(&a, "data/there")), format!("cp {} back", at(&a, "/data/there/")), format!("ls {}", at(&a, ""))]
    {
        w.haul(&words).ends(0).never_says(&shown);
    }
    assert!(inside.join("there").is_dir());
    w.assert_same("src", "back", SAME);
}

#[test]
fn an_account_that_may_not_log_in_is_reported() {
    let w = World::new("src: a=5");
    for (shell, reason) in [("/usr/sbin/nologin", "not available"), ("/bin/false", "offers SFTP to this account")] {
        let a = account(shell);
        w.says(10, &format!("cp src/ {}", at(&a, "there")), &["testhost", reason]);
    }
}
