//! What a data set is asked for with.
//!
//! ```text
//! SPEC   = ITEM { ("," | "+") ITEM }
//! ITEM   = COUNT "x" SIZE | LAW [ ":" NAME "=" VALUE { "," NAME "=" VALUE } ] | PRESET [ ":" SET ]
//! LAW    = "lognormal" (median sigma count max) | "uniform" (min max count)
//! ```

use super::law::{Law, MOST_SIZE};
use super::preset::{PRESETS, Preset, PresetSet, Sizes, names};
use super::profile::Profile;
use super::skeleton::{Row, Skeleton};

/// The most files of a set: at ten thousand a second it takes three hours to make them.
pub const MOST_FILES: u64 = 100_000_000;

/// A data set, understood. Sizes and counts are as asked for, before anything is scaled.
#[derive(Clone, Debug)]
pub struct Spec {
    /// As it was written.
    pub text: String,
    pub sets: Vec<Set>,
}

#[derive(Clone, Debug)]
pub struct Set {
    /// The directory below the top that it gets where there are several sets; empty for the top itself.
    pub folder: String,
    /// For people.
    pub name: String,
    pub laws: Vec<Law>,
    /// Drawn sizes add up to this.
    pub total: Option<u64>,
    /// Links beside the files, whatever the options add.
    pub symlinks: u64,
    pub hard_links: u64,
    pub file_name: Option<fn(u64) -> String>,
    /// Directories, where the shape is the set's own.
    pub rows: Option<Vec<Row>>,
    /// Lengths of names, of files and of directories: (bytes, how many), where they are the set's own.
    pub lengths: Option<[Vec<(u8, u64)>; 2]>,
    /// Sizes are dealt out in a drawn order; else as the laws stand.
    pub shuffled: bool,
}

impl Set {
    fn plain(name: String) -> Set {
        Set {
            folder: String::new(),
            name,
            laws: Vec::new(),
            total: None,
            symlinks: 0,
            hard_links: 0,
            file_name: None,
            rows: None,
            lengths: None,
            shuffled: false,
        }
    }

    fn of_preset(set: &PresetSet) -> Set {
        let (laws, total) = match set.sizes {
            Sizes::Even => (Law::Even { count: set.count, total: set.total }, None),
            Sizes::Spread(sigma) => {
                let median = set.total as f64 / set.count as f64 / (sigma * sigma / 2.0).exp();
                (Law::Lognormal { count: set.count, median, sigma, most: MOST_SIZE, sum: None }, Some(set.total))
            }
        };
        Set {
            laws: vec![laws],
            total,
            symlinks: set.symlinks,
            file_name: set.file_name,
            rows: Some(set.rows.map_or_else(|| vec![Row { depth: 0, dirs: 1, entries: 0, subdirs: 0 }], <[Row]>::to_vec)),
            ..Set::plain(set.name.into())
        }
    }

    pub fn files(&self) -> u64 {
        self.laws.iter().map(Law::count).sum()
    }
}

/// What reads `10MiB`: bytes, or why not.
pub type SizeParser<'a> = &'a dyn Fn(&str) -> Result<u64, String>;

const POSSIBLE: &str = "write COUNTxSIZE like 1000x10MiB, lognormal:median=64KiB,sigma=2,count=10000, uniform:min=4KiB,max=1MiB,count=1000";

impl Spec {
    /// `Err` says what is wrong and what is possible.
    pub fn parse(text: &str, size: SizeParser<'_>) -> Result<Spec, String> {
        let mut plain = Set::plain(text.into());
        let mut presets: Vec<(&Preset, Vec<Set>)> = Vec::new();
        let mut words = text.split([',', '+']).map(str::trim).peekable();
        while let Some(word) = words.next() {
            // What follows a law's first parameter, up to the next item.
            let mut parameters = Vec::new();
            let (head, first) = word.split_once(':').map_or((word, None), |(head, first)| (head, Some(first)));
            if let "lognormal" | "uniform" = head {
                parameters.extend(first.filter(|first| !first.is_empty()));
                while let Some(more) = words.next_if(|more| more.contains('=') && !more.contains(':')) {
                    parameters.push(more);
                }
            }
            match head {
                "lognormal" => plain.laws.push(lognormal(&parameters, size)?),
                "uniform" => plain.laws.push(uniform(&parameters, size)?),
                _ if let Some(preset) = PRESETS.iter().find(|preset| preset.name == head) => {
                    let at = presets.iter().position(|(known, _)| known.name == preset.name).unwrap_or_else(|| {
                        presets.push((preset, Vec::new()));
                        presets.len() - 1
                    });
                    let chosen = chosen(preset, first)?;
                    if chosen.iter().any(|set| presets[at].1.iter().any(|known| known.name == set.name)) {
                        return Err(format!("'{word}' is there twice"));
                    }
                    presets[at].1.extend(chosen.into_iter().map(Set::of_preset));
                }
                _ => plain.laws.push(fixed(word, size)?),
            }
        }
        Spec { text: text.into(), sets: folders(plain, presets) }.checked()
    }

    /// A tree like one that was read.
    pub fn like(profile: &Profile, count: Option<u64>) -> Result<Spec, String> {
        if profile.files == 0 {
            return Err("there is no file in it, so there is nothing to be like".into());
        }
        let entries = profile.files + profile.symlinks + profile.hard_links;
        let wanted = count.unwrap_or(profile.files);
        let part = |n: u64| (u128::from(n) * u128::from(wanted) / u128::from(profile.files)) as u64;
        let (symlinks, hard_links) = (part(profile.symlinks), part(profile.hard_links));
        let laws = profile.sizes(wanted);
        let rows = Skeleton::scaled(&profile.rows(), wanted + symlinks + hard_links);
        Spec {
            text: format!("like:{entries}:{}:{}", profile.bytes, profile.dirs),
            sets: vec![Set {
                laws,
                symlinks,
                hard_links,
                rows: Some(rows),
                lengths: Some([profile.file_names.clone(), profile.dir_names.clone()]),
                shuffled: true,
                ..Set::plain("like a tree that is there".into())
            }],
        }
        .checked()
    }

    fn checked(self) -> Result<Spec, String> {
        let (mut files, mut bytes) = (0u64, 0u64);
        for law in self.sets.iter().flat_map(|set| &set.laws) {
            files = files.saturating_add(law.count());
            if let Law::Even { total, .. } = law {
                bytes = bytes.checked_add(*total).ok_or("these are more bytes than any file system has (2^64)")?;
            }
        }
        if files > MOST_FILES {
            return Err(format!("{files} files are too many; {MOST_FILES} is the most"));
        }
        Ok(self)
    }

    /// The same with `1 / scale` of the bytes.
    pub fn scaled(mut self, scale: u64) -> Spec {
        if scale <= 1 {
            return self;
        }
        for set in &mut self.sets {
            let before = set.files().max(1);
            set.laws = set.laws.iter().map(|law| law.scaled(scale)).collect();
            set.total = set.total.map(|total| total.div_ceil(scale));
            let part = |n: u64| (u128::from(n) * u128::from(set.files()) / u128::from(before)) as u64;
            (set.symlinks, set.hard_links) = (part(set.symlinks), part(set.hard_links));
        }
        self
    }
}

/// Several sets have a directory each; those of several presets say whose they are.
fn folders(plain: Set, presets: Vec<(&Preset, Vec<Set>)>) -> Vec<Set> {
    let alone = presets.len() == 1 && plain.laws.is_empty();
    let mut sets: Vec<Set> = if plain.laws.is_empty() { Vec::new() } else { vec![plain] };
    for (preset, own) in presets {
        let single = alone && own.len() == 1;
        for mut set in own {
            let full = format!("{}-{}", preset.name, set.name);
            set.folder = match () {
                () if single => String::new(),
                () if alone => set.name.clone(),
                () => full,
            };
            set.name = format!("{}:{}", preset.name, set.name);
            sets.push(set);
        }
    }
    sets
}

fn chosen<'a>(preset: &'a Preset, name: Option<&str>) -> Result<Vec<&'a PresetSet>, String> {
    let Some(name) = name else { return Ok(preset.sets.iter().collect()) };
    let found: Vec<&PresetSet> = preset.sets.iter().filter(|set| set.name == name).collect();
    if found.is_empty() {
        let known: Vec<String> = preset.sets.iter().map(|set| format!("{}:{}", preset.name, set.name)).collect();
        return Err(format!("{} has no set '{name}'; there are {}", preset.name, known.join(", ")));
    }
    Ok(found)
}

fn fixed(word: &str, size: SizeParser<'_>) -> Result<Law, String> {
    let unknown = || format!("'{word}' is no data set; {POSSIBLE}, or one of the presets {}", names());
    let (count, each) = word.split_once(['x', 'X', '\u{d7}']).ok_or_else(unknown)?;
    if count.is_empty() || !count.chars().all(|c| c.is_ascii_digit() || c == '_') {
        return Err(unknown());
    }
    let count = counted(count, word)?;
    let each = sized(each, word, size)?;
    let total = count.checked_mul(each).ok_or_else(|| format!("'{word}' is more bytes than any file system has (2^64)"))?;
    Ok(Law::Even { count, total })
}

fn counted(text: &str, word: &str) -> Result<u64, String> {
    match text.replace('_', "").parse::<u64>() {
        Ok(0) => Err(format!("'{word}' has no file; the smallest count is 1")),
        Ok(count) if count <= MOST_FILES => Ok(count),
        Ok(count) => Err(format!("{count} files in '{word}' are too many; {MOST_FILES} is the most")),
        Err(_) if text.chars().all(|c| c.is_ascii_digit() || c == '_') && !text.is_empty() => {
            Err(format!("'{text}' files are too many; {MOST_FILES} is the most"))
        }
        Err(_) => Err(format!("'{text}' in '{word}' is no count; write a whole number like 1000")),
    }
}

fn sized(text: &str, word: &str, size: SizeParser<'_>) -> Result<u64, String> {
    let bytes = size(text.trim()).map_err(|why| format!("'{text}' in '{word}': {why}"))?;
    if bytes > MOST_SIZE {
        return Err(format!("'{text}' in '{word}' is more than a file can have (8 EiB)"));
    }
    Ok(bytes)
}

/// Takes the parameters of a law apart; `Err` names those there are.
fn parameters<'a>(law: &str, given: &[&'a str], known: &[&str]) -> Result<Vec<(usize, &'a str)>, String> {
    let mut found: Vec<(usize, &str)> = Vec::new();
    for parameter in given {
        let place = parameter.split_once('=').and_then(|(name, value)| Some((known.iter().position(|k| *k == name.trim())?, value.trim())));
        let Some(place) = place else {
            return Err(format!(
                "'{parameter}' is no parameter of {law}; there are {}",
                known.iter().map(|name| format!("{name}=")).collect::<Vec<_>>().join(", ")
            ));
        };
        if found.iter().any(|(at, _)| *at == place.0) {
            return Err(format!("{law} has {}= twice", known[place.0]));
        }
        found.push(place);
    }
    Ok(found)
}

fn lognormal(given: &[&str], size: SizeParser<'_>) -> Result<Law, String> {
    let (mut median, mut sigma, mut count, mut most) = (64 << 10, 2.0f64, 10_000, MOST_SIZE);
    for (at, value) in parameters("lognormal", given, &["median", "sigma", "count", "max"])? {
        match at {
            0 => median = sized(value, "median", size)?,
            1 => {
                sigma =
                    value.parse().map_err(|_| format!("sigma={value} is no number; it is that of the logarithm, 2 for a wide spread"))?
            }
            2 => count = counted(value, "lognormal")?,
            _ => most = sized(value, "max", size)?,
        }
    }
    if median == 0 {
        return Err("lognormal has no median of 0; the smallest is 1B".into());
    }
    if !(0.0..=10.0).contains(&sigma) {
        return Err(format!("sigma={sigma} is impossible; it is from 0 (all alike) to 10"));
    }
    Ok(Law::Lognormal { count, median: median as f64, sigma, most, sum: None })
}

fn uniform(given: &[&str], size: SizeParser<'_>) -> Result<Law, String> {
    let (mut least, mut most, mut count) = (0, 1 << 20, 10_000);
    for (at, value) in parameters("uniform", given, &["min", "max", "count"])? {
        match at {
            0 => least = sized(value, "min", size)?,
            1 => most = sized(value, "max", size)?,
            _ => count = counted(value, "uniform")?,
        }
    }
    if least > most {
        return Err(format!("uniform has a min of {least} bytes above its max of {most} bytes"));
    }
    Ok(Law::Uniform { count, least, most })
}
