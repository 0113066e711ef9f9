//! Logins that are lost, refused or made by a command of the user's own.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};

use haul_test::program::until;
use rustix::process::{Pid, Signal, kill_process};

use crate::ssh::support::{SAME, World, account, plenty};

/// The processes of ssh that hold a login to the server.
fn masters(w: &World) -> Vec<Pid> {
    let config = w.server.config().display().to_string();
    let is_master = |pid: &i32| {
        let line = String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).into_owned();
        let is_ssh = fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.ends_with("ssh"));
        is_ssh && line.split('\0').any(|word| word == config) && line.split('\0').any(|word| word == "-N")
    };
    let listed = fs::read_dir("/proc").expect("procfs").flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    listed.filter(is_master).filter_map(Pid::from_raw).collect()
}

#[test]
fn a_master_that_is_killed_is_replaced() {
    let w = plenty("");
    let mut run = w.haul("cp --bwlimit 8M src/ testhost:~/there").start();
    run.until("it has begun", || w.has("there") && w.list("there").len() > 3);
    for pid in masters(&w) {
        // Its socket stays behind.
        kill_process(pid, Signal::KILL).expect("killed");
    }
    run.wait().code(0);
    assert_eq!(w.server.logins(), 2);
    w.assert_same("src", "there", SAME);
}

#[test]
fn a_command_that_does_not_become_ssh_leaves_no_login_behind() {
    let w = World::new("src: a=5");
    w.write("wrapper", "#!/bin/sh\nssh \"$@\"\n");
    w.chmod("wrapper", 0o755);
    let wrapper = w.path("wrapper").display().to_string();
    w.haul(&format!("cp -e {wrapper} src/ testhost:~/there")).ends(0);
    until("the login has ended", || masters(&w).is_empty());
    // As rsync's: it says how to reach hosts where nothing else does.
    let mut run = w.haul("cp --bwlimit 1 src/ testhost:~/again").env("RSYNC_RSH", &wrapper).start();
    run.until("it is logged in", || w.has("again"));
    run.signal(Signal::KILL);
    run.wait();
    until("the login has ended", || masters(&w).is_empty());
}

#[test]
fn a_login_that_is_refused_because_too_many_are_under_way_is_tried_again() {
    let w = World::served("src: a=5", "MaxStartups 1:100:1");
    let other = TcpStream::connect((Ipv4Addr::LOCALHOST, w.server.port)).expect("it listens");
    let run = w.haul("cp src/ testhost:~/there").start();
    until("it was refused", || w.server.log().contains("MaxStartups"));
    drop(other);
    run.wait().code(0);
    w.assert_same("src", "there", SAME);
}

#[test]
fn a_directory_that_may_not_be_read_is_passed_over_by_wildcards() {
    let w = World::new("");
    let a = account("/bin/sh");
    let src = a.home().join("src").display().to_string();
    w.sh(&format!("mkdir -p {src}/a {src}/b {src}/shut && echo 1 > {src}/a/x && echo 2 > {src}/b/x && chmod 700 {src}/shut"));
    let listed = w.haul(&format!("ls {}@testhost:{src}/*/x*", a.name)).ends(0).err_has("shut: ").err_has("Permission denied");
    assert_eq!(listed.out, format!("{0}@testhost:{src}/a/x\n{0}@testhost:{src}/b/x\n", a.name));
    w.haul(&format!("ls {}@testhost:{src}/s*/x*", a.name)).ends(23).err_has("Permission denied");
}

#[test]
fn braces_stand_for_their_alternatives() {
    let w = World::new("src: a=1 b=2 c=3 d1/x=4 d2/x=5");
    w.haul("cp testhost:~/src/{a,c} got/").ends(0);
    assert_eq!(w.names("got"), "a c");
    w.haul("ls testhost:~/src/d{1,2}/*").ends(0).out_has("d1/x\n").out_has("d2/x\n");
    w.haul("cp testhost:~/src/{a,none} more/").ends(23).err_has("none");
    w.write("src/{a,c}", "braces");
    assert_eq!(w.haul("cat testhost:~/src/{a,c}").ends(0).out, "braces");
}

#[test]
fn setuid_bits_that_differ_are_reported() {
    let w = World::new("src: a=5:0755 b=5:4755 there: a=5:4755 b=5:0755");
    w.sh("touch -r src/a src/b there/a there/b src there");
    for flags in ["-a", "-p"] {
        for ends in ["src/ testhost:~/there", "testhost:~/src/ there"] {
            w.haul(&format!("check {flags} {ends}")).ends(1).out_has("a").out_has("b").out_has("Differ");
        }
    }
}

#[test]
fn without_modes_a_new_file_is_executable_where_its_source_is() {
    let w = World::new("src: run=5:0755 plain=5:0644 large=700K:0755");
    w.haul("cp --no-perms src/ testhost:~/there").ends(0);
    w.haul("cp --no-perms -I src/ testhost:~/there").ends(0);
    assert_eq!((w.mode("there/run"), w.mode("there/plain"), w.mode("there/large")), (0o755, 0o644, 0o755));
}
