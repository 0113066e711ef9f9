//! A region for each side of a copy between object stores.

use clap::Args;

use super::connect::Connect;
use haul_run::location::Location;

#[derive(Args)]
#[command(next_help_heading = "Object stores (s3://; no effect on other addresses)")]
pub struct RegionArgs {
    /// Use this region for sources (default: --region, or auto-detected)
    #[arg(long, value_name = "NAME")]
    source_region: Option<String>,
    /// Use this region for the destination (default: --region, or auto-detected)
    #[arg(long, value_name = "NAME")]
    destination_region: Option<String>,
}

impl RegionArgs {
    pub(super) fn apply(self, connect: &mut Connect, sources: &[Location], destination: &Location) {
        let is_keys = |place: &&Location| place.scheme.keys;
        let pair = |place: &Location, region: &Option<String>| Some((place.authority(), region.clone()?));
        let mut regions: Vec<_> = sources.iter().filter(is_keys).filter_map(|place| pair(place, &self.source_region)).collect();
        regions.extend(Some(destination).filter(is_keys).and_then(|place| pair(place, &self.destination_region)));
        if !regions.is_empty() {
            connect.change(|flags: &mut haul_s3::Flags| flags.regions = regions);
        }
    }
}
