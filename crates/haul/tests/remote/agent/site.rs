//! `/etc/haul/config.toml` of either machine, as the program reads it: the file is in a mount namespace of the test.

use haul_test::apart::etc;
use haul_test::compare::What;
use serde_json::Value;

use crate::agent::direct::{GET, PUT, cached, established, free_ports, watched, world};
use crate::agent::support::{HAUL, World};

/// Two machines by their `/etc`: that of the agents, and that of the program here.
struct Sites {
    w: World,
    /// Mounts the directory of the program's end over `/etc`.
    near: String,
}

impl Sites {
    fn new() -> Sites {
        let mut w = world();
        let [far, near] = ["far-etc", "near-etc"].map(|name| {
            let dir = etc(&w.path(name)).expect("copied");
            w.sh(&format!("rm -rf {name}/haul && mkdir {name}/haul"));
            format!("mount --bind {} /etc", dir.display())
        });
        w.agent = w.script("apart", &format!("#!/bin/sh\nexec unshare -m sh -c '{far} && exec \"$0\" \"$@\"' {HAUL} \"$@\"\n"));
        Sites { w, near }
    }

    /// What both files say in their one section; nothing is no file.
    fn set(&self, far: &str, near: &str) {
        for (name, text) in [("far-etc", far), ("near-etc", near)] {
            let file = format!("{name}/haul/config.toml");
            match text {
                "" => self.w.remove(file),
                text => self.w.write(file, format!("[data-connections]\n{text}\n")),
            }
        }
        self.w.remove(cached(&self.w));
    }

    /// The attempt of `haul doctor` to connect there, and all that it prints.
    fn doctor(&self) -> (Value, String) {
        self.tried("out", "")
    }

    /// The attempt in one direction.
    fn tried(&self, direction: &str, flags: &str) -> (Value, String) {
        let ended = self.w.haul(&format!("doctor --json testhost {flags}")).through(&self.near).ends(0);
        let event: Value = serde_json::from_str(&ended.out).expect("JSON");
        (event["hosts"][0]["data"][direction].clone(), ended.out)
    }

    /// Runs that end well and leave the same tree; the ports of the host to which they connected, one for each connection.
    fn ports(&self, flags: &str) -> Vec<Vec<u16>> {
        let one = |(words, copy): (&str, &str)| {
            self.w.remove(copy);
            let (_, seen) = watched(self.w.haul(&format!("{words} {flags}")).through(&self.near));
            self.w.assert_same("src", copy, What::USUAL);
            established(&seen).iter().map(|tcp| tcp.remote).collect()
        };
        [(PUT, "there"), (GET, "here")].map(one).into()
    }
}

const CHACHA: &str = "TLS_CHACHA20_POLY1305_SHA256";
const AES_256: &str = "TLS_AES_256_GCM_SHA384";

#[test]
#[ignore = "full"]
fn the_file_of_the_host_bounds_ports_streams_and_cipher_suites() {
    let sites = Sites::new();
    let (low, high) = free_ports(2);
    sites.set(&format!("ports = \"{low}:{low}\"\nstreams = 1\nciphers = [\"{CHACHA}\"]"), "");
    let (out, text) = sites.doctor();
    assert_eq!((&out["cipher"], &out["port"]), (&CHACHA.into(), &low.into()), "{text}");
    sites.w.haul("doctor testhost").through(&sites.near).ends(0).out_has(CHACHA);
    for flags in ["--streams 3", &format!("--data-ports {low}:{high}")] {
        assert_eq!(sites.ports(flags), [[low], [low]], "{flags}");
    }
    // None of the ports that the run names is allowed.
    assert_eq!(sites.ports(&format!("--data-ports {high}:{high}")), [[0; 0], []]);
}

#[test]
#[ignore = "full"]
fn cipher_suites_are_those_that_both_files_allow() {
    let sites = Sites::new();
    sites.set("", &format!("ciphers = [\"{AES_256}\"]"));
    let (out, text) = sites.doctor();
    assert_eq!(out["cipher"], AES_256, "{text}");
    sites.set(&format!("ciphers = [\"{AES_256}\", \"{CHACHA}\"]"), &format!("ciphers = [\"{CHACHA}\", \"TLS_AES_128_GCM_SHA256\"]"));
    let (out, text) = sites.doctor();
    assert_eq!(out["cipher"], CHACHA, "{text}");
    sites.set(&format!("ciphers = [\"{AES_256}\"]"), &format!("ciphers = [\"{CHACHA}\"]"));
    let (out, text) = sites.doctor();
    assert!(out["cipher"].is_null() && out["works"] == false && !out["error"].is_null(), "{text}");
    assert_eq!(sites.ports(""), [[0; 0], []]);
}

#[test]
#[ignore = "full"]
fn the_file_of_either_machine_switches_them_off_whatever_a_run_says() {
    let sites = Sites::new();
    for (far, near) in [("enabled = false", ""), ("", "enabled = false")] {
        sites.set(far, near);
        assert_eq!(sites.ports("--streams 2 --accept"), [[0; 0], []], "{far} {near}");
        let ended = sites.w.haul(&format!("{PUT} -I")).env("HAUL_DATA_CONNECTIONS", "on").through(&sites.near).ends(0);
        ended.says("ssh sessions").never_says("direct TCP");
        let (out, text) = sites.doctor();
        assert!(out["works"] == false && text.contains("no data connections: they are switched off on "), "{text}");
    }
}

#[test]
#[ignore = "full"]
fn a_file_that_is_not_understood_switches_them_off_and_doctor_says_why() {
    let sites = Sites::new();
    for (far, near) in [("enabeld = true", ""), ("", "streams = many")] {
        sites.set(far, near);
        assert_eq!(sites.ports(""), [[0; 0], []], "{far} {near}");
        let (out, text) = sites.doctor();
        assert!(out["works"] == false && text.contains("unusable settings on ") && text.contains("/etc/haul/config.toml"), "{text}");
    }
}

#[test]
#[ignore = "full"]
fn the_file_of_this_machine_names_the_ports_on_which_it_listens() {
    let sites = Sites::new();
    let (low, high) = free_ports(2);
    sites.set("", &format!("ports = \"{low}:{low}\""));
    let (into, text) = sites.tried("in", "--accept");
    assert!(into["works"] == true && into["port"] == low, "{text}");
    let (into, text) = sites.tried("in", &format!("--accept --data-ports {high}:{high}"));
    assert!(into["works"] == false && text.contains("are not among those that the site allows"), "{text}");
    sites.set("", "enabled = false");
    let (into, text) = sites.tried("in", "--accept");
    assert!(into["works"] == false && text.contains("no data connections: they are switched off on "), "{text}");
}
