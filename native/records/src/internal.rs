//! Records of Kafka's internal topics.
