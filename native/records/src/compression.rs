//! Codecs with an output limit.
