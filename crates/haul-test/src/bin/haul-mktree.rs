//! Makes trees for benchmarks. Sizes are bytes.
//!
//! `haul-mktree flat DIR COUNT SIZE | spread DIR DIRS FILES SIZE | nasty DIR | random DIR SEED [FILES] | text DIR SPEC...`

use std::path::Path;
use std::process::ExitCode;

use haul_test::nasty;
use haul_test::tree::{Tree, flat, spread};

const USAGE: &str =
    "usage: haul-mktree flat DIR COUNT SIZE | spread DIR DIRS FILES SIZE | nasty DIR | random DIR SEED [FILES] | text DIR SPEC...";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("haul-mktree: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let made = match words.as_slice() {
        ["flat", directory, count, size] => flat(Path::new(directory), number(count)?, number(size)?),
        ["spread", directory, directories, files, size] => {
            spread(Path::new(directory), number(directories)?, number(files)?, number(size)?)
        }
        ["nasty", directory] => nasty::build(Path::new(directory)).map(|left_out| {
            for line in left_out {
                eprintln!("haul-mktree: left out: {line}");
            }
        }),
        ["random", directory, seed] => random(directory, number(seed)?, 1000),
        ["random", directory, seed, files] => random(directory, number(seed)?, number(files)?),
        ["text", directory, spec @ ..] => Tree::new(directory).and_then(|tree| tree.build(&spec.join(" "))),
        _ => return Err(USAGE.to_owned()),
    };
    made.map_err(|error| error.to_string())
}

fn random(directory: &str, seed: u64, files: u64) -> std::io::Result<()> {
    Tree::new(directory)?.random(seed, files as usize)
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is no number\n{USAGE}"))
}
