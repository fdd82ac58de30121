"""What a person sees: a terminal, the HTML report in a browser, the app of `offheap live`."""
