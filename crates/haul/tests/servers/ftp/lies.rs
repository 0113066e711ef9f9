//! A server that breaks off and lies.

use super::*;

#[test]
#[ignore = "full"]
fn a_connection_that_breaks_is_made_again() {
    let content = bytes(5, 3 << 20);
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").subsec_nanos() as usize;
    for reply in ["426 broken", "226 done", "451 disk", "421 bye"] {
        let at = seed % content.len();
        eprintln!("cut after {at} bytes, {reply}");
        let cuts = Mutex::new(vec![at, 0, at / 2]);
        let (w, server) = rogue(&content, move |line| match line.starts_with("RETR") {
            true => cuts.lock().expect("no panic").pop().map_or(Answer::Honest, |at| Answer::Cut(at, reply)),
            false => Answer::Honest,
        });
        w.ends(0, "cp @/file copy");
        assert!(w.read("copy") == content, "{:#?}", server.heard());
    }
}

#[test]
fn lies_end_in_errors() {
    let content = bytes(6, 100_000);
    let listing = |line: &'static str| {
        move |command: &str| match command {
            "LIST -a" => Answer::Send(line.as_bytes().to_vec()),
            _ => Answer::Honest,
        }
    };
    let say = |at: &'static str, said: &'static str| {
        move |command: &str| {
            if command.starts_with(at) && (at.is_empty() == command.is_empty()) { Answer::Say(said.into()) } else { Answer::Honest }
        }
    };
    for (lie, words, part) in [
        (
            Box::new(listing("-rw-r--r-- 1 0 0 1 Jan 01  2020 ../../out\r\n")) as Box<dyn Fn(&str) -> Answer + Send + Sync>,
            "cp @/dir/ got",
            "invalid name",
        ),
        (Box::new(listing("-rw-r--r-- 1 0 0 1 Jan 01  2020 /etc/x\r\n")), "cp @/dir/ got", "invalid name"),
        (Box::new(listing("README.TXT;1   12/30   1-JAN-2020 10:00\r\n")), "ls @/dir/", "unknown format: README.TXT;1"),
        (Box::new(say("", "SSH-2.0-OpenSSH_9\r\n")), "cp @/file got", "no FTP reply"),
        (Box::new(say("", "500 go away\r\n")), "cp @/file got", "500 go away"),
        (Box::new(say("EPSV", "229 ok (|||1|)\r\n")), "cp --retries 0 @/file got", "port 1 of the server"),
        (Box::new(say("RETR", "150 x\r\n226 y\r\n")), "cp --retries 0 --timeout 2s @/file got", ""),
        (Box::new(say("USER", "331-\x1b[2J\r\n331-more\r\n")), "cp --timeout 2s @/file got", "did not answer in time"),
        (Box::new(say("SIZE", "213 99999999\r\n")), "cp --retries 0 @/file got", "too early"),
        (Box::new(say("SIZE", "213 7\r\n")), "cp --retries 0 @/file got", "longer than it was"),
        (Box::new(say("SIZE", "213 -1\r\n")), "cp @/file got", "no such file"),
    ] {
        let (w, server) = rogue(&content, lie);
        let text = w.fails(words);
        assert!(text.contains(part) && !text.contains('\x1b'), "{words}: {part}\n{text}\n{:#?}", server.heard());
        assert!(!w.path("got").is_file() && !w.has("../out"), "{words}");
    }
}
