//! Transfers that were interrupted, and uploads in ranges.

use super::*;

#[test]
fn an_interrupted_download_goes_on() {
    let w = vsftpd("");
    assert!(w.haul("cp -j 1 --chunk-size 1M @/src/big copy").killed_at(8).run().was_killed());
    let before = w.server.log().len();
    w.ends(0, "cp -j 1 --chunk-size 1M @/src/big copy");
    assert!(w.read("copy") == w.read("src/big"));
    let log = w.server.log()[before..].to_string();
    let moved = moved(&log, "DOWNLOAD");
    assert!(moved > 0 && moved < BIG as u64, "{moved} bytes of {BIG}\n{log}");
    assert!(log.contains("\"REST "), "{log}");
}

#[test]
#[ignore = "full"]
fn a_server_that_writes_ranges_is_sent_them() {
    let w = vsftpd("lock_upload_files=NO");
    let ranges = |from: usize| places(&w.server.log()[from..]).into_iter().filter(|at| *at >= 4 << 20).count();
    for rate in ["25M", "8M", "2M"] {
        w.ends(0, &slow_upload(&w, rate));
        w.sh("cmp huge copy && rm copy");
        w.assert_clean("");
        if ranges(0) > 1 {
            break;
        }
    }
    assert!(ranges(0) > 1, "{}", w.server.log());
    // What was written in ranges is not known by the size of the file.
    let before = w.server.log().len();
    let mut run = w.haul(&slow_upload(&w, "4M")).start();
    run.until("ranges in the log", || ranges(before) > 8);
    run.signal(Signal::KILL);
    assert!(run.wait().was_killed());
    let before = w.server.log().len();
    assert!(w.ends(0, "cp --chunk-size 4M huge @/copy").contains("Resumed:"));
    w.sh("cmp huge copy");
    let moved = moved(&w.server.log()[before..], "UPLOAD");
    assert!(moved > 0, "{}", w.server.log());
    w.assert_clean("");
}

/// vsftpd does so under delete_failed_uploads, when the connection of an earlier run ends late.
#[test]
#[ignore = "full"]
fn a_staging_file_that_is_removed_meanwhile_is_not_gone_on_with() {
    let w = vsftpd("");
    assert!(w.haul("cp -j 1 --chunk-size 1M src/big @/copy").killed_at(8).run().was_killed());
    until("the upload in the log", || w.server.log().contains(" UPLOAD:"));
    let before = w.server.log().len();
    let mut run = w.haul("cp -j 1 --chunk-size 1M --bwlimit 1M src/big @/copy").start();
    run.until("an upload", || w.server.log()[before..].contains("\"STOR "));
    w.remove(w.staging("").remove(0));
    let ended = run.wait().code(0);
    assert!(w.read("copy") == w.read("src/big"), "{ended}");
    w.assert_clean("");
}

/// Another job, here with another state directory, writes the same version of the file to the same place: neither takes what the other has.
#[test]
fn two_interrupted_uploads_of_one_file_go_on_apart() {
    let w = vsftpd("");
    let command = "cp -j 1 --chunk-size 1M src/big @/copy";
    let states = [w.path("one"), w.path("other")].map(|state| state.display().to_string());
    for (state, record) in states.iter().zip([12, 6]) {
        assert!(w.haul(command).env("HAUL_STATE_DIR", state).killed_at(record).run().was_killed());
    }
    until("both uploads in the log", || w.server.log().matches(" UPLOAD:").count() == 2);
    assert_eq!(w.staging("").len(), 2);
    for state in &states {
        let ended = w.haul(&format!("{command} -I")).env("HAUL_STATE_DIR", state).run();
        assert!(ended.status.success() && ended.out.contains("Resumed:"), "{ended}");
        w.sh("cmp src/big copy");
    }
    w.assert_clean("");
}
