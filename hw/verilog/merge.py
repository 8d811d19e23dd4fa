"""Modules with the same text become one, of which there are several instances."""

from .module import Module
from .words import without_numbers
from .writer import module_text


def merge(modules: list[Module]) -> list[Module]:
    """The modules, of which the first is the top one and the others follow those that have them, without copies.

    What stays has the name that all its copies share without their numbers: tosaic_vector_lanes_lane_3_alu and its
    like become tosaic_vector_lanes_lane_alu."""
    alike: dict[str, list[Module]] = {}
    kept: dict[str, Module] = {}
    # The parts of a module stand behind it, so they have been merged when its own text is compared.
    for module in reversed(modules):
        for instance in module.instances:
            instance.module = kept[instance.module].name if instance.module in kept else instance.module
        header, body = module_text(module).split("\n", 1)
        group = alike.setdefault(body, [])
        group.append(module)
        kept[module.name] = group[0]
        if module is not group[0]:
            group[0].copies.append(module)
    taken = {group[0].name for group in alike.values()}
    names: dict[str, str] = {}
    for first, *copies in alike.values():
        short = without_numbers(first.name)
        if copies and short not in taken and all(without_numbers(copy.name) == short for copy in copies):
            taken.add(short)
            names[first.name] = short
    merged = [module for module in modules if kept[module.name] is module]
    for module in merged:
        module.name = names.get(module.name, module.name)
        for instance in module.instances:
            instance.module = names.get(instance.module, instance.module)
    return merged
