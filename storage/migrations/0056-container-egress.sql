-- What a container may reach. Null: all that containers may; none of them: nothing; otherwise these networks only.
alter table containers add column egress text[];
