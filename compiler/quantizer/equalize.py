"""placeholder"""
def equalize(graph, statistics, dtype):
    return False
